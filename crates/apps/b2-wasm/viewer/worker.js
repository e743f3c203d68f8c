// Runs the engine in a worker: reads ranges of files for it, and passes commands and results.
"use strict";

/** For how long a server may send nothing, in milliseconds. */
const RESPONSE_TIMEOUT = 60000;
const TIMED_OUT = `the server has sent nothing for ${RESPONSE_TIMEOUT / 1000} seconds`;

const files = new Map();
const running = new Map();
let wasm = null;
/** When the first of the pending requests started, or a server last sent something. */
let heard = 0;
/** Requests, their bytes, and rounds: how often a request started while none was in flight. */
const counts = { requests: 0, bytes: 0, rounds: 0 };

onmessage = async ({ data }) => {
  try {
    if (data.start) {
      const module = data.start instanceof WebAssembly.Module ? data.start : await WebAssembly.compile(data.start);
      wasm = (await WebAssembly.instantiate(module, {})).exports;
      postMessage({ ready: true });
    } else if (data.alive) {
      postMessage({ alive: true, waiting: running.size > 0 ? performance.now() - heard : 0 });
    } else if (data.file !== undefined) {
      files.set(data.file, data.source);
    } else if (data.call !== undefined) {
      input(new TextEncoder().encode(data.command));
      wasm.b2_call(data.call);
      pump();
    } else if (data.cancel !== undefined) {
      wasm.b2_cancel(data.cancel);
      pump();
    }
  } catch (error) {
    stopped(error);
  }
};

/** The engine cannot continue: the page starts another one. */
function stopped(error) {
  wasm = null;
  postMessage({ stopped: String(error && error.message || error) });
}

function input(...parts) {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  let at = wasm.b2_input(length);
  for (const part of parts) {
    new Uint8Array(wasm.memory.buffer, at, part.length).set(part);
    at += part.length;
  }
}

/** Processes all events of the engine. */
function pump() {
  for (let kind = wasm.b2_next(); kind !== 0; kind = wasm.b2_next()) {
    const text = new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.b2_json(), wasm.b2_json_len()));
    const message = JSON.parse(text);
    if (kind === 1) {
      request(message);
    } else if (kind === 2) {
      const bytes = new Uint8Array(wasm.memory.buffer, wasm.b2_bytes(), wasm.b2_bytes_len()).slice();
      postMessage({ task: message.task, answer: message.answer, bytes, counts }, [bytes.buffer]);
    } else {
      postMessage({ task: message.task, error: message.error, counts });
    }
  }
}

async function request(ask) {
  if (ask.forget !== undefined) {
    running.get(ask.forget)?.abort();
    return;
  }
  const number = ask.read ?? ask.length;
  const abort = new AbortController();
  if (running.size === 0) {
    counts.rounds += 1;
    heard = performance.now();
  }
  running.set(number, abort);
  let found;
  try {
    const source = part(files.get(ask.file), ask.chunk);
    if (ask.length !== undefined) {
      found = await length(source, abort);
    } else if (source instanceof Blob) {
      found = await slice(source, ask.start, ask.end);
    } else {
      found = await fetched(source, ask.start, ask.end, abort);
    }
  } catch (error) {
    found = { kind: error.kind ?? 1, bytes: new TextEncoder().encode(error.message) };
  }
  running.delete(number);
  if (wasm === null) return;
  try {
    const encode = (text) => new TextEncoder().encode(text ?? "");
    const etag = encode(found.etag);
    const modified = encode(found.modified);
    input(etag, modified, found.bytes);
    wasm.b2_answer(number, found.kind ?? 0, found.length ?? -1, etag.length, modified.length);
    pump();
  } catch (error) {
    stopped(error);
  }
}

/** The file itself; for a sparse frame, its index or a chunk file. */
function part(source, chunk) {
  if (source === undefined) throw new Error("this file is not open");
  if (chunk === undefined) return source.index ?? source;
  const name = `${chunk.toString(16).toUpperCase().padStart(8, "0")}.chunk`;
  if (typeof source === "string") return new URL(name, source).href;
  if (source.folder === undefined) {
    throw failure("this is the index of a sparse frame, whose chunks are files next to it: drop or open the folder with all of them");
  }
  const file = source.folder.get(name);
  if (file === undefined) throw failure(`the folder of the sparse frame has no file ${name}`, 2);
  return file;
}

function failure(message, kind = 1) {
  return Object.assign(new Error(message), { kind });
}

async function slice(blob, start, end) {
  try {
    const bytes = new Uint8Array(await blob.slice(start, end).arrayBuffer());
    counts.requests += 1;
    counts.bytes += bytes.length;
    return { bytes, length: blob.size, modified: String(blob.lastModified ?? "") };
  } catch {
    throw failure("the file cannot be read: it was changed, moved or removed since it was opened", 3);
  }
}

/** Sends a request; explains in its error why the browser refuses. */
async function send(url, options) {
  counts.requests += 1;
  try {
    return await fetch(url, { cache: "no-store", credentials: "same-origin", referrerPolicy: "no-referrer", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw failure(TIMED_OUT);
    // An opaque response is enough to check that the server exists.
    let there = false;
    try {
      await fetch(url, { mode: "no-cors", method: "HEAD", cache: "no-store", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(RESPONSE_TIMEOUT) });
      there = true;
    } catch { /* There is none. */ }
    throw failure(there
      ? "the server does not allow other pages to read its files: it must send the header Access-Control-Allow-Origin"
      : "there is no answer from the server: check the address and the network");
  }
}

function version(response) {
  const header = (name) => response.headers.get(name);
  return { etag: header("etag"), modified: header("last-modified") };
}

/** Aborts a request if nothing arrives for too long. Each call of the returned function restarts the timeout. */
function startTimeout(abort) {
  let timer;
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(), RESPONSE_TIMEOUT);
  };
  again();
  return Object.assign(() => { heard = performance.now(); again(); }, { end: () => clearTimeout(timer) });
}

async function length(source, abort) {
  if (source instanceof Blob) return { bytes: new Uint8Array(), length: source.size };
  const received = startTimeout(abort);
  const response = await send(source, { method: "HEAD", signal: abort.signal }).finally(received.end);
  const stated = Number(response.headers.get("content-length") ?? NaN);
  const known = response.ok && Number.isSafeInteger(stated) && !response.headers.get("content-encoding");
  return { bytes: new Uint8Array(), length: known ? stated : -1, ...version(response) };
}

async function fetched(url, start, end, abort) {
  const received = startTimeout(abort);
  try {
    const response = await send(url, { headers: { Range: `bytes=${start}-${end - 1}` }, signal: abort.signal });
    received();
    const stated = response.headers.get("content-range");
    if (response.status === 404 || response.status === 410) throw failure("there is no such file on the server", 2);
    if (response.status === 416) {
      if (start === 0) return { bytes: new Uint8Array(), length: 0, ...version(response) };
      throw failure("the file ends before the required bytes: it is truncated or has changed");
    }
    if (response.status === 200) {
      // The whole file is fine if it is small.
      const size = Number(response.headers.get("content-length") ?? NaN);
      if (!(start === 0 && size <= end)) {
        abort.abort();
        throw failure("the server does not support requests for ranges of bytes, so the whole file would have to be loaded");
      }
    } else if (response.status !== 206) {
      throw failure(`the server answers with status ${response.status}`);
    }
    let total = -1;
    if (stated !== null && response.status === 206) {
      const parts = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(stated);
      if (parts === null || Number(parts[1]) !== start || Number(parts[2]) >= end) {
        throw failure("the server sends a different range than requested");
      }
      if (parts[3] !== "*") total = Number(parts[3]);
    }
    const bytes = await body(response, end - start, abort, received);
    counts.bytes += bytes.length;
    return { bytes, length: total, ...version(response) };
  } finally {
    received.end();
  }
}

/** Returns the bytes of a response, at most `most`. */
async function body(response, most, abort, received) {
  const parts = [];
  let size = 0;
  const reader = response.body.getReader();
  for (;;) {
    let step;
    try {
      step = await reader.read();
    } catch {
      throw failure(abort.signal.aborted ? TIMED_OUT : "the connection to the server broke");
    }
    received();
    if (step.done) break;
    size += step.value.length;
    if (size > most) {
      abort.abort();
      throw failure("the server sends more bytes than requested");
    }
    parts.push(step.value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
