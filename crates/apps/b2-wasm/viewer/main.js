// The page: opens files, and shows what the engine reads of them. Text from files is only ever set as text.
"use strict";

const at = (id) => document.getElementById(id);

/** Bytes of blocks to decode for the first picture, and for better ones. */
const BUDGETS = [8 << 20, 64 << 20, 256 << 20];
/** Maximum height and width of a picture, in pixels. */
const MAX_PIXELS = 1200;

const shown = {
  source: null, handle: 0, store: null, member: null, file: null, axes: [], drawn: [], windows: [], generation: 0,
  look: null, legend: null, cursor: [0, 0], values: null, map: "viridis", range: "", log: false, field: null,
  /** A promise of the coordinates along the dimensions. */
  points: null,
};
/** Grows with each file and each picture; results for older ones are dropped. */
let opening = 0;
let looking = 0;
let pending = null;
let counts = { requests: 0, bytes: 0, rounds: 0 };

const packed = (id) => {
  const element = at(id);
  return element === null ? null : Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
};

const engine = new Engine(
  async () => {
    const inside = packed("inside-engine");
    if (inside !== null) return inside;
    // Never older than the page.
    const response = await fetch("engine.wasm", { cache: "no-cache" });
    if (!response.ok) throw new Error("the page is incomplete: engine.wasm is missing");
    return response.arrayBuffer();
  },
  () => {
    const inside = at("inside-worker");
    if (inside === null) return new Worker("worker.js");
    return new Worker(URL.createObjectURL(new Blob([inside.textContent], { type: "text/javascript" })));
  },
  (now) => { counts = now; tell(); },
  (time, waits) => {
    at("slow").hidden = time === 0;
    const seconds = `${Math.round(time / 1000)} seconds`;
    if (time > 0) {
      at("slow-text").textContent = waits ? `The server has sent nothing for ${seconds}.`
        : `Still decoding, for ${seconds}: the file has very large blocks, or is damaged.`;
    }
  },
);

function say(problem) {
  at("problem").textContent = problem;
  at("problem").hidden = problem === "";
}

let doing = "";
function tell(what = doing) {
  doing = what;
  const size = counts.bytes < 1e6 ? `${(counts.bytes / 1e3).toFixed(1)} kB` : `${(counts.bytes / 1e6).toFixed(1)} MB`;
  const read = counts.requests > 0 ? `${counts.requests} reads, ${size}` : "";
  at("status").textContent = [what, read].filter(Boolean).join(" · ");
  document.body.dataset.requests = counts.requests;
  document.body.dataset.bytes = counts.bytes;
  document.body.dataset.rounds = counts.rounds;
}

/** Runs an action of the user and displays its errors. */
async function trying(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem)) console.error(error);
    say(error.message);
    tell("");
    document.body.dataset.state = "problem";
    return undefined;
  }
}

// Files

/** Opens a local file or an address. */
async function open(source, name, wanted = {}, member = false) {
  if (engine.isSlow) engine.stop();
  if (!member) folder = null;
  opening += 1;
  const own = opening;
  looking += 1;
  pending?.cancel();
  document.body.dataset.state = "opening";
  say("");
  tell("opening");
  await trying(async () => {
    const generation = engine.generation;
    const number = await engine.add(source);
    const { answer } = await engine.call("open", { file: number, name });
    if (own !== opening) return;
    Object.assign(shown, { source, name, generation, store: null, member: null, file: null, look: null });
    at("welcome").hidden = true;
    at("side").hidden = false;
    at("view").hidden = true;
    at("store").hidden = folder === null;
    if (answer.file.kind === "store") {
      shown.store = answer;
      showStore(answer.file);
      title(name);
      const first = answer.file.members.findIndex((member) => member.why === "");
      const key = answer.file.members.findIndex((member) => member.key === wanted.key);
      document.body.dataset.state = "store";
      const known = key >= 0 || !wanted.key;
      if (key >= 0 || first >= 0) await openMember(key >= 0 ? key : first, known ? wanted : {});
      else facts({ kind: "store" });
      if (!known) say(`there is no member ${wanted.key} in this store`);
    } else {
      await show(answer, wanted);
    }
  });
}

/** The files of the open folder: their names and openable entries. */
let folder = null;
/** Maximum number of files of a folder. */
const MAX_FILES = 20000;
const ENDINGS = /\.(b2nd|b2frame|b2f|b2z|b2e)$/;
const INDEX = "chunks.b2frame";

/** Opens a folder, given its paths and files: as a sparse frame if it is one, otherwise as a list of files. */
function openFolder(name, files) {
  const folders = new Map();
  for (const [path, file] of files) {
    const cut = path.lastIndexOf("/") + 1;
    const key = path.slice(0, cut);
    if (!folders.has(key)) folders.set(key, new Map());
    folders.get(key).set(path.slice(cut), file);
  }
  const list = [];
  for (const [key, inside] of folders) {
    const index = inside.get(INDEX);
    if (index !== undefined) list.push({ key: key.slice(0, -1) || name, source: { index, folder: inside } });
    for (const [file, source] of inside) {
      if (file !== INDEX && ENDINGS.test(file)) list.push({ key: key + file, source });
    }
  }
  list.sort((a, b) => (a.key < b.key ? -1 : 1));
  if (list.length === 0) {
    say("there is no file in this folder that the page can read: .b2nd, .b2frame, .b2z, .b2e, or a sparse frame");
    document.body.dataset.state = "problem";
    return;
  }
  folder = list.length > 1 ? list : null;
  if (folder !== null) {
    at("side").hidden = false;
    members(list.map(({ key }) => ({ key, why: "" })), (k) => visit(() => {
      folder = list;
      open(list[k].source, list[k].key, {}, true);
    }));
  }
  open(list[0].source, list[0].key, {}, true);
}

/** Returns the paths and files in a dropped folder. */
async function filesIn(entry, prefix = "", files = []) {
  const reader = entry.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return files;
    for (const inner of entries) {
      if (files.length >= MAX_FILES) throw new Problem(`the folder has more than ${MAX_FILES} files`);
      if (inner.isDirectory) await filesIn(inner, `${prefix}${inner.name}/`, files);
      else files.push([prefix + inner.name, await new Promise((resolve, reject) => inner.file(resolve, reject))]);
    }
  }
}

/** Reopens the file if the engine was restarted. */
async function alive() {
  if (shown.generation === engine.generation || shown.source === null) return;
  await open(shown.source, shown.name, { key: shown.member, ...linked() });
}

function showStore(file) {
  const { source, name } = shown;
  members(file.members, (k) => visit(() => {
    if (shown.source === source) trying(() => openMember(k));
    else open(source, name, { key: file.members[k].key });
  }));
}

/** Lists members of a store or files of a folder; `choose_(k)` opens one. */
function members(list, choose_) {
  at("store").hidden = false;
  at("tree").replaceChildren(...list.map((member, k) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = member.key + (member.why === "" ? "" : " (not readable)");
    button.title = member.why;
    button.style.paddingLeft = `${0.3 + 0.8 * Math.max(0, member.key.split("/").length - 2)}rem`;
    button.addEventListener("click", () => choose_(k));
    item.append(button);
    return item;
  }));
}

async function openMember(k, wanted = {}) {
  await alive();
  opening += 1;
  const own = opening;
  looking += 1;
  pending?.cancel();
  say("");
  tell("opening");
  document.body.dataset.state = "opening";
  const member = shown.store.file.members[k];
  at("tree").querySelectorAll("button").forEach((button, i) => button.toggleAttribute("aria-current", i === k));
  const { answer } = await engine.call("member", { handle: shown.store.handle, member: k });
  if (own !== opening) return;
  shown.member = member.key;
  await show(answer, wanted);
}

function title(name) {
  document.title = name;
  at("title").textContent = name;
}

function facts(file) {
  const rows = file.kind === "store" ? [["kind", "store"]] : [
    ["kind", file.kind === "array" ? "array" : "super-chunk"],
    ["shape", file.shape.join(" × ") || "one item"],
    ["dtype", file.dtype],
    ["chunks", `${file.chunks.join(" × ")}, ${file.nchunks} of them`],
    ["blocks", file.blocks.join(" × ")],
    ["size", `${file.nbytes.toLocaleString("en")} bytes`],
    ["stored", `${file.cbytes.toLocaleString("en")} bytes, ${(file.nbytes / Math.max(1, file.cbytes)).toFixed(2)}x`],
    ["codec", `${file.codec}, level ${file.level}`],
    ["filters", file.filters.join(", ") || "none"],
    ["checksums", file.checksums],
    ...(file.unit ? [["values", file.unit]] : []),
  ];
  fill(at("facts"), rows);
  fill(at("meta"), [...(file.meta ?? []), ...(file.attrs ?? [])]);
  at("layers").hidden = (file.meta ?? []).length + (file.attrs ?? []).length === 0;
}

function fill(list, rows) {
  list.replaceChildren(...rows.flatMap(([name, value]) => {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    text.textContent = value;
    return [term, text];
  }));
}

/** Shows an open frame. */
async function show({ handle, file }, wanted) {
  if (shown.handle !== 0 && shown.handle !== handle) engine.call("close", { handle: shown.handle }).catch(() => {});
  Object.assign(shown, { handle, file, look: null, legend: null, values: null, points: null, cursor: [0, 0], generation: engine.generation });
  title([shown.name, shown.member].filter(Boolean).join(" "));
  facts(file);
  at("view").hidden = false;
  shown.map = wanted.map ?? shown.map;
  shown.range = wanted.range ?? "";
  shown.log = wanted.log ?? false;
  const drawable = file.fields.findIndex((field) => field.drawn);
  const named = file.fields.findIndex((field) => field.name === wanted.field);
  shown.field = file.fields.length === 0 ? null : Math.max(0, named >= 0 ? named : drawable);
  at("field-label").hidden = file.fields.length === 0;
  at("field").replaceChildren(...file.fields.map((field, k) => option(k, field.name, !field.drawn)));
  at("field").value = String(shown.field ?? "");
  at("map").value = shown.map;
  at("range").value = shown.range;
  at("log").checked = shown.log;
  select(at("tab-picture"));
  clear();
  await choose(wanted.slice ?? "", wanted.dims);
}

function option(value, text, disabled = false) {
  const element = document.createElement("option");
  element.value = String(value);
  element.textContent = text;
  element.disabled = disabled;
  return element;
}

const nameOf = (dim) => shown.file.names?.[dim] || `dimension ${dim}`;

// Selections

/** Draws a selection in NumPy's notation. */
async function choose(slice, dims) {
  const { answer } = await engine.call("axes", { handle: shown.handle, slice });
  // A single position selects its whole dimension.
  shown.axes = answer.axes.map((axis, dim) => (axis.dropped
    ? { start: 0, step: 1, len: shown.file.shape[dim], dropped: true, at: axis.start } : axis));
  const long = shown.axes.flatMap((axis, dim) => (!axis.dropped && axis.len > 1 ? [dim] : []));
  const fits = dims && dims.length > 0 && dims.length <= 2 && dims.every((dim) => long.includes(dim)) && new Set(dims).size === dims.length;
  shown.drawn = fits ? dims : long.slice(-2);
  if (shown.drawn.length === 0 && shown.axes.length > 0) shown.drawn = [shown.axes.length - 1];
  for (const [dim, axis] of shown.axes.entries()) {
    if (!shown.drawn.includes(dim)) single(dim, axis.at ?? Math.floor(axis.len / 2));
  }
  whole();
  controls();
  await look();
}

/** Shows a single position of a dimension, and remembers the axis of the whole dimension. */
function single(dim, k) {
  const axis = shown.axes[dim];
  shown.axes[dim] = { ...axis, at: Math.min(axis.len - 1, Math.max(0, k)) };
}

const position = (axis, k) => axis.start + k * axis.step;

function whole() {
  shown.windows = shown.drawn.map((dim) => [0, shown.axes[dim].len]);
}

/** Formats one dimension in NumPy's notation: positions `from` to `to`. */
function part(axis, from, to) {
  const [first, last] = [position(axis, from), position(axis, to - 1)];
  const stop = axis.step > 0 ? last + 1 : last - 1 < 0 ? "" : last - 1;
  return `${first}:${stop}${axis.step === 1 ? "" : `:${axis.step}`}`;
}

/** The displayed selection. */
function sliceText() {
  return shown.axes.map((axis, dim) => {
    const drawn = shown.drawn.indexOf(dim);
    if (drawn < 0) return String(position(axis, axis.at ?? 0));
    const [from, to] = shown.windows[drawn];
    const all = from === 0 && to === axis.len && axis.start === 0 && axis.step === 1 && axis.len === shown.file.shape[dim];
    return all ? ":" : part(axis, from, to);
  }).join(",");
}

/** The selection to which positions refer: all of the drawn dimensions, one position of the others. */
function baseText() {
  return shown.axes.map((axis, dim) => (shown.drawn.includes(dim)
    ? part(axis, 0, axis.len)
    : String(position(axis, axis.at ?? 0)))).join(",");
}

function controls() {
  const long = shown.axes.flatMap((axis, dim) => (axis.len > 1 && shown.file.shape[dim] > 1 ? [dim] : []));
  const two = shown.drawn.length === 2;
  at("rows-label").hidden = !two;
  at("columns-label").hidden = long.length < 2;
  for (const [id, dim] of [["rows", shown.drawn[0]], ["columns", shown.drawn.at(-1)]]) {
    at(id).replaceChildren(...long.map((k) => option(k, nameOf(k))));
    at(id).value = String(dim);
  }
  const others = shown.axes.flatMap((axis, dim) => (shown.drawn.includes(dim) || axis.len < 2 ? [] : [dim]));
  at("sliders").replaceChildren(...others.map((dim) => {
    const axis = shown.axes[dim];
    const label = document.createElement("label");
    const name = document.createElement("span");
    name.textContent = nameOf(dim);
    const make = (type) => {
      const input = document.createElement("input");
      Object.assign(input, { type, min: "0", max: String(axis.len - 1), step: "1", value: String(axis.at) });
      input.setAttribute("aria-label", `${nameOf(dim)}, place`);
      input.addEventListener(type === "range" ? "input" : "change", () => go(dim, Number(input.value)));
      return input;
    };
    label.append(name, make("range"), make("number"));
    label.dataset.dim = String(dim);
    return label;
  }));
}

function go(dim, k) {
  if (!Number.isInteger(k)) return;
  single(dim, k);
  for (const input of at("sliders").querySelectorAll(`label[data-dim="${dim}"] input`)) input.value = String(shown.axes[dim].at);
  trying(look);
}

// Pictures

/** Clears pictures and texts of another selection or file. */
function clear() {
  shown.look = null;
  at("picture").width = 1;
  at("down").replaceChildren();
  at("across").replaceChildren();
  for (const id of ["plot", "legend", "profile-plot", "cross"]) at(id).hidden = true;
  for (const id of ["caption", "cell"]) at(id).textContent = "";
  delete at("cell").dataset.position;
  delete at("cell").dataset.value;
}

/** Reads and draws the selection: first from few blocks, then in more detail. */
async function look() {
  await alive();
  looking += 1;
  const own = looking;
  pending?.cancel();
  shown.values = null;
  remember();
  at("slice").value = sliceText();
  say("");
  if (shown.drawn.length === 0 && shown.axes.length > 0) return;
  document.body.dataset.state = "looking";
  at("profile-plot").hidden = true;
  at("cell").textContent = "";
  if (shown.file.shape.length > 0 && shown.file.fields.length > 0 ? !shown.file.fields[shown.field]?.drawn : !shown.file.drawn) {
    clear();
    throw new Problem(`items of ${shown.file.fields.length > 0 ? "this field" : shown.file.dtype} cannot be drawn`);
  }
  if (shown.file.shape.length === 0) {
    const { answer } = await engine.call("item", { handle: shown.handle });
    if (own !== looking) return;
    clear();
    at("cell").textContent = `[()] = ${answer.value}`;
    tell("");
    document.body.dataset.state = "shown";
    return;
  }
  at("plot").hidden = false;
  const wide = Math.min(MAX_PIXELS, Math.max(64, Math.ceil(at("frame").clientWidth * devicePixelRatio)));
  const most = shown.drawn.length === 2 ? [wide, wide] : [1, wide];
  for (const [n, decoded] of BUDGETS.entries()) {
    tell(n === 0 ? "reading" : "reading more");
    pending = engine.call("look", {
      handle: shown.handle, slice: baseText(), dims: shown.drawn, windows: shown.windows.flat(), most, decoded,
      field: shown.field ?? "",
    });
    const { answer } = await pending;
    if (own !== looking) return;
    shown.look = answer;
    shown.values = null;
    at("legend").hidden = false;
    await paint(own);
    if (own !== looking) return;
    drawn();
    await edges(own);
    if (shown.points === null) {
      shown.points = findPoints(shown.handle);
      if (await shown.points && own === looking) await edges(own);
    }
    if (own !== looking) return;
    if (answer.every === 1) break;
  }
  tell("");
  document.body.dataset.state = "shown";
}

/** Signals tests that a picture is complete, and what was read before the first one. */
function drawn() {
  const pictures = Number(document.body.dataset.pictures ?? 0) + 1;
  document.body.dataset.pictures = pictures;
  if (pictures === 1) document.body.dataset.first = JSON.stringify(counts);
}

const scale = () => ({ handle: shown.handle, range: shown.range, map: shown.map, log: shown.log ? 1 : 0 });

async function paint(own = looking) {
  shown.values = null;
  const { answer, bytes } = await engine.call("paint", scale());
  if (own !== looking) return;
  shown.legend = answer;
  const single_ = shown.drawn.length < 2;
  at("picture").style.height = single_ ? "240px" : "";
  at("picture").style.imageRendering = single_ ? "auto" : "";
  if (single_) {
    await line(own);
  } else {
    drawPicture(at("picture"), shown.look, bytes);
    const [[r0, r1], [c0, c1]] = shown.windows;
    // The aspect ratio of the items, unless it is far from square.
    const shape = Math.min(3, Math.max(1 / 2, (c1 - c0) / (r1 - r0)));
    at("picture").style.aspectRatio = String(shape);
  }
  drawLegend(at("bar"), at("histogram"), answer);
  at("low").textContent = answer.first || String(Number(answer.low.toPrecision(7)));
  at("high").textContent = answer.last || String(Number(answer.high.toPrecision(7)));
  const most = Math.max(...answer.bars);
  drawAxis(at("count"), { title: "items", marks: [[0, most.toLocaleString("en")], [1, "0"]] }, true);
  at("missing").textContent = answer.missing > 0 ? `${answer.missing} missing` : "";
  const { steps, every, height, width } = shown.look;
  const caption = [`[${sliceText()}]`];
  if (shown.file.unit) caption.push(shown.file.unit);
  if (Math.max(...steps) > 1) caption.push(`one item of ${single_ ? steps[1] : steps.join(" × ")}`);
  if (every > 1) caption.push(`one block of ${every}${single_ ? "" : ` × ${every}`}`);
  at("caption").textContent = caption.join(" · ");
  at("picture").setAttribute("aria-label", `${single_ ? "Line" : "Picture"} of ${shown.name} ${caption[0]}, ${height} by ${width} pixels, values from ${at("low").textContent} to ${at("high").textContent}`);
  move(shown.cursor[0], shown.cursor[1], !at("cross").hidden);
}

/** The axis of values of a line. */
const valueAxis = () => ({ title: shown.file.unit ?? "", marks: shown.legend.marks });

/** Draws items or coordinates along the axes. */
async function edges(own) {
  const box = at("frame").getBoundingClientRect();
  const most = [Math.max(2, Math.floor(box.height / 50)), Math.max(2, Math.floor(box.width / 90))];
  const line_ = shown.drawn.length < 2;
  const { answer } = await engine.call("edges", { handle: shown.handle, most: line_ ? most.slice(1) : most });
  if (own !== looking) return;
  drawAxis(at("down"), line_ ? valueAxis() : answer.edges[0], true);
  drawAxis(at("across"), answer.edges.at(-1), false);
}

/** Returns a function that opens the array of this name next to the displayed one, in the store or folder, or null. */
function findNeighbour(name) {
  const key = shown.store !== null ? shown.member : folder?.find(({ source }) => source === shown.source)?.key;
  if (key === undefined || !name || name.includes("/")) return null;
  const group = key.slice(0, key.lastIndexOf("/") + 1);
  if (shown.store !== null) {
    const k = shown.store.file.members.findIndex((member) => member.key === group + name && member.key !== key);
    return k < 0 ? null : () => engine.call("member", { handle: shown.store.handle, member: k });
  }
  const found = folder.find((file) => file.key === `${group}${name}.b2nd` && file.key !== key);
  return found === undefined ? null : async () => engine.call("open", { file: await engine.add(found.source), name: found.key });
}

/** Reads the coordinates of all dimensions that have them; returns whether there are any. */
async function findPoints(handle) {
  let any = false;
  for (const [dim, name] of (shown.file.names ?? []).entries()) {
    const open_ = findNeighbour(name);
    if (open_ === null) continue;
    try {
      const { answer } = await open_();
      await engine.call("points", { handle, of: answer.handle, dim });
      any = true;
      engine.call("close", { handle: answer.handle }).catch(() => {});
    } catch { /* The array has other items, or is damaged: then the axis counts items. */ }
    if (shown.handle !== handle) break;
  }
  return any;
}

async function values(own) {
  if (shown.values === null) {
    const { bytes } = await engine.call("values", scale());
    if (own !== looking) return null;
    shown.values = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
  }
  return shown.values;
}

async function line(own) {
  const all = await values(own);
  if (all === null) return;
  const canvas = at("picture");
  canvas.width = Math.max(300, Math.round(at("frame").clientWidth * devicePixelRatio));
  canvas.height = Math.round(240 * devicePixelRatio);
  canvas.style.aspectRatio = "";
  drawLine(canvas, all, shown.legend.low, shown.legend.high, shown.log, null);
}

// The cursor

let asked = 0;

/** Moves the cursor to a pixel and displays its value. */
function move(row, column, tell_ = true) {
  if (shown.look === null) return;
  const { height, width } = shown.look;
  shown.cursor = [Math.min(height - 1, Math.max(0, row)), Math.min(width - 1, Math.max(0, column))];
  const [y, x] = shown.cursor;
  const [box, cross] = [at("picture").getBoundingClientRect(), at("cross")];
  cross.hidden = !tell_ && cross.hidden;
  Object.assign(cross.style, {
    left: `${x * box.width / width}px`, width: `${box.width / width}px`,
    top: `${shown.drawn.length < 2 ? 0 : y * box.height / height}px`,
    height: `${shown.drawn.length < 2 ? box.height : box.height / height}px`,
  });
  if (!tell_) return;
  asked += 1;
  const [own, of] = [asked, looking];
  engine.call("cell", { handle: shown.handle, row: y, column: x }).then(async ({ answer }) => {
    if (own !== asked || of !== looking) return;
    const named = answer.position.flatMap((k, dim) => (shown.file.names?.[dim]
      ? [`${nameOf(dim)} ${k}${answer.points[dim] && ` (${answer.points[dim]})`}`] : []));
    const place = named.length > 0 ? ` · ${named.join(", ")}` : "";
    at("cell").textContent = `[${answer.position.join(", ")}] = ${answer.value}${place}`;
    at("cell").dataset.position = answer.position.join(",");
    at("cell").dataset.value = answer.value;
    if (shown.drawn.length < 2) return;
    const all = await values(of);
    if (all === null || own !== asked) return;
    at("profile-plot").hidden = false;
    drawAxis(at("profile-down"), valueAxis(), true);
    drawLine(at("profile"), all.subarray(y * width, (y + 1) * width), shown.legend.low, shown.legend.high, shown.log, x);
  }, () => {});
}

function pixelAt(event) {
  const box = at("picture").getBoundingClientRect();
  const share = (value, size) => Math.min(0.999999, Math.max(0, value / size));
  return [
    Math.floor(share(event.clientY - box.top, box.height) * shown.look.height),
    Math.floor(share(event.clientX - box.left, box.width) * shown.look.width),
  ];
}

/** The position of a pixel in the selection. */
const placeOf = (d, pixel) => {
  const [from, to] = shown.windows[d];
  const count = shown.drawn.length < 2 || d === 1 ? shown.look.width : shown.look.height;
  return from + Math.floor((pixel + 0.5) * (to - from) / count);
};

/** Zooms by a factor around the cursor. */
function zoom(factor) {
  if (shown.look === null) return;
  shown.windows = shown.windows.map(([from, to], d) => {
    const all = shown.axes[shown.drawn[d]].len;
    const cursor = shown.drawn.length < 2 ? shown.cursor[1] : shown.cursor[d];
    const size = Math.min(all, Math.max(Math.min(all, 4), Math.round((to - from) * factor)));
    const start = Math.round(placeOf(d, cursor) - size * (placeOf(d, cursor) - from) / (to - from));
    const first = Math.min(all - size, Math.max(0, start));
    return [first, first + size];
  });
  trying(look);
}

function pan(rows, columns) {
  const by = shown.drawn.length < 2 ? [columns] : [rows, columns];
  shown.windows = shown.windows.map(([from, to], d) => {
    const all = shown.axes[shown.drawn[d]].len;
    const first = Math.min(all - (to - from), Math.max(0, from + Math.round(by[d] * (to - from))));
    return [first, first + to - from];
  });
  trying(look);
}

function keys(event) {
  if (shown.look === null || event.ctrlKey || event.altKey || event.metaKey) return;
  const [y, x] = shown.cursor;
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const other = shown.axes.findIndex((axis, dim) => !shown.drawn.includes(dim) && axis.len > 1);
  if (steps && event.shiftKey) pan(steps[0] / 4, steps[1] / 4);
  else if (steps) move(y + steps[0], x + steps[1]);
  else if (event.key === "+" || event.key === "=") zoom(0.5);
  else if (event.key === "-") zoom(2);
  else if (event.key === "0") { whole(); trying(look); }
  else if (event.key === "PageUp" && other >= 0) go(other, shown.axes[other].at - 1);
  else if (event.key === "PageDown" && other >= 0) go(other, shown.axes[other].at + 1);
  else if (event.key === "Home") move(y, 0);
  else if (event.key === "End") move(y, shown.look.width - 1);
  else return;
  event.preventDefault();
}

/** Dragging pans; two fingers zoom. */
function pointers() {
  const down = new Map();
  let begun = null;
  const spread = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  const picture = at("picture");
  picture.addEventListener("pointerdown", (event) => {
    if (shown.look === null) return;
    picture.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    begun = { x: event.clientX, y: event.clientY, spread: down.size === 2 ? spread() : 0 };
    move(...pixelAt(event));
  });
  picture.addEventListener("pointermove", (event) => {
    if (shown.look === null) return;
    if (down.has(event.pointerId)) down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    else move(...pixelAt(event));
  });
  const up = (event) => {
    if (!down.has(event.pointerId) || shown.look === null) return;
    const box = picture.getBoundingClientRect();
    if (down.size === 2 && begun.spread > 0) {
      const factor = begun.spread / Math.max(1, spread());
      if (factor < 0.8 || factor > 1.25) zoom(factor);
    } else if (down.size === 1 && Math.hypot(event.clientX - begun.x, event.clientY - begun.y) > 8) {
      pan((begun.y - event.clientY) / box.height, (begun.x - event.clientX) / box.width);
    }
    down.delete(event.pointerId);
  };
  picture.addEventListener("pointerup", up);
  picture.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
  picture.addEventListener("wheel", (event) => {
    if (shown.look === null || !(event.ctrlKey || document.activeElement === picture)) return;
    event.preventDefault();
    move(...pixelAt(event));
    zoom(event.deltaY < 0 ? 0.8 : 1.25);
  }, { passive: false });
}

// Chunks

async function chunks() {
  const { bytes } = await engine.call("chunks", { handle: shown.handle });
  let sizes = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
  const all = sizes.length;
  const counted = new Map();
  for (const size of sizes) if (size < 0) counted.set(size, (counted.get(size) ?? 0) + 1);
  const grid = shown.file.shape.map((len, dim) => Math.ceil(len / Math.max(1, shown.file.chunks[dim])));
  let [rows, columns] = [1, Math.max(1, all)];
  let plane = "";
  if (shown.drawn.length === 2 && grid.reduce((n, k) => n * k, 1) === all) {
    // The chunks of the displayed plane.
    const [down, across] = shown.drawn;
    const strides = grid.map((_, dim) => grid.slice(dim + 1).reduce((n, k) => n * k, 1));
    const start = grid.reduce((sum, _, dim) => sum + (shown.drawn.includes(dim) ? 0
      : Math.floor(position(shown.axes[dim], shown.axes[dim].at ?? 0) / shown.file.chunks[dim]) * strides[dim]), 0);
    [rows, columns] = [grid[down], grid[across]];
    const picked = [];
    for (let y = 0; y < rows; y += 1) for (let x = 0; x < columns; x += 1) picked.push(sizes[start + y * strides[down] + x * strides[across]]);
    sizes = picked;
    if (picked.length < all) plane = ` The map shows the ${picked.length} of this plane.`;
  } else if (all > 64) {
    columns = Math.ceil(Math.sqrt(all));
    rows = Math.ceil(all / columns);
  }
  if (rows * columns > 4e6) throw new Problem("there are too many chunks for a map");
  const whole_ = shown.file.nbytes / Math.max(1, all);
  drawChunks(at("chunks"), [...sizes], [rows, columns], whole_);
  const special = [...counted].map(([kind, count]) => `${count} ${SPECIAL[kind][0]}`);
  at("chunk-summary").textContent = `${all} chunk${all === 1 ? "" : "s"}${special.length > 0 ? `, of them ${special.join(", ")}` : ""}.${plane} Darker chunks store more bytes; black is uncompressed.`;
  at("chunk-legend").replaceChildren(...[...counted.keys()].map((kind) => {
    const [name, colour] = SPECIAL[kind];
    const [item, swatch] = [document.createElement("li"), document.createElement("span")];
    swatch.className = "swatch";
    swatch.style.backgroundColor = css(colour);
    item.append(swatch, name);
    return item;
  }));
  document.body.dataset.chunks = String(all);
}

function select(tab) {
  for (const other of at("tabs").querySelectorAll("[role=tab]")) {
    const own = other === tab;
    other.setAttribute("aria-selected", String(own));
    other.tabIndex = own ? 0 : -1;
    at(other.getAttribute("aria-controls")).hidden = !own;
  }
}

// Links and downloads

/** Updates the address of the page to the current view; local files have none. */
function remember() {
  if (typeof shown.source !== "string" || location.protocol === "file:" || at("inside-data") !== null) return;
  const query = new URLSearchParams({ url: shown.given });
  if (shown.member !== null) query.set("key", shown.member);
  const link = linked();
  for (const name of ["slice", "dims", "map", "range", "field"]) if (link[name]) query.set(name, String(link[name]));
  if (link.log) query.set("log", "1");
  history.replaceState(history.state, "", `?${query}`);
}

/** Functions that restore the entries of the browser's history. */
const visits = [];

/** Navigates to another view, with an entry in the browser's history. */
function visit(again) {
  const n = visits.length === 0 ? 0 : (history.state?.at ?? -1) + 1;
  visits.length = n;
  visits.push(again);
  if (n === 0) history.replaceState({ at: n }, "");
  else history.pushState({ at: n }, "");
  again();
}

function linked() {
  const field = shown.field === null ? "" : shown.file.fields[shown.field]?.name;
  return { slice: sliceText(), dims: shown.drawn, map: shown.map, range: shown.range, log: shown.log, field };
}

function fromLink(link = location.search) {
  const query = new URLSearchParams(link);
  const dims = query.get("dims")?.split(",").map(Number);
  return {
    key: query.get("key"), slice: query.get("slice") ?? "", dims, range: query.get("range") ?? "", log: query.get("log") === "1",
    field: query.get("field"),
    map: ["viridis", "cividis", "grey", "diverging"].includes(query.get("map")) ? query.get("map") : "viridis",
  };
}

function openAddress(text, wanted) {
  let url;
  try {
    url = new URL(text, location.href);
    // The folder of a sparse frame.
    if (url.pathname.endsWith("/")) url.pathname += INDEX;
    if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error();
  } catch {
    say("not the address of a file: it must start with https:// or http://");
    document.body.dataset.state = "problem";
    return;
  }
  shown.given = text;
  at("url").value = text;
  open(url.href, decodeURIComponent(url.pathname.split("/").at(-1)) || url.host, wanted);
}

function save(parts, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  document.body.dataset.saved = name;
}

const stem = () => `${shown.name}${shown.member ?? ""}`.replace(/\.[a-z0-9]+$/i, "").replace(/[^\w.-]+/g, "_");

async function saveNpy() {
  await alive();
  const parts = [];
  for (let part = 0, more = true; more; part += 1) {
    tell(`reading part ${part + 1}`);
    const { answer, bytes } = await engine.call("npy", { handle: shown.handle, slice: sliceText(), part });
    parts.push(bytes);
    more = answer.more;
  }
  tell("");
  save(parts, `${stem()}.npy`, "application/octet-stream");
}

function savePng() {
  at("picture").toBlob((blob) => { if (blob !== null) save([blob], `${stem()}.png`, "image/png"); }, "image/png");
}

// User input

function begin() {
  at("address").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = at("url").value.trim();
    visit(() => openAddress(text, {}));
  });
  at("pick").addEventListener("change", () => {
    const [file] = at("pick").files;
    if (file) visit(() => open(file, file.name));
  });
  at("pick-folder").addEventListener("change", () => {
    const files = [...at("pick-folder").files];
    if (files.length > MAX_FILES) say(`the folder has more than ${MAX_FILES} files`);
    else if (files.length > 0) {
      // Paths begin with the name of the folder.
      const path = (file) => file.webkitRelativePath.slice(file.webkitRelativePath.indexOf("/") + 1);
      visit(() => openFolder(files[0].webkitRelativePath.split("/")[0], files.map((file) => [path(file), file])));
    }
  });
  at("stop").addEventListener("click", () => engine.stop());
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("drop"); });
  addEventListener("dragleave", () => document.body.classList.remove("drop"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("drop");
    const [file] = event.dataTransfer.files;
    const entry = event.dataTransfer.items?.[0]?.webkitGetAsEntry?.();
    if (entry?.isDirectory) {
      trying(async () => {
        const files = await filesIn(entry);
        visit(() => openFolder(entry.name, files));
      });
    } else if (file) visit(() => open(file, file.name));
  });
  const again = (change) => () => trying(async () => { change(); await look(); });
  at("field").addEventListener("change", again(() => { shown.field = Number(at("field").value); }));
  at("rows").addEventListener("change", () => trying(() => reshape(Number(at("rows").value), 0)));
  at("columns").addEventListener("change", () => trying(() => reshape(Number(at("columns").value), 1)));
  const repaint = () => trying(async () => {
    Object.assign(shown, { map: at("map").value, range: at("range").value.trim(), log: at("log").checked });
    say("");
    remember();
    if (shown.look !== null) await paint();
    drawn();
  });
  for (const id of ["map", "range", "log"]) at(id).addEventListener("change", repaint);
  at("slice").addEventListener("change", () => trying(() => choose(at("slice").value)));
  at("in").addEventListener("click", () => zoom(0.5));
  at("out").addEventListener("click", () => zoom(2));
  at("whole").addEventListener("click", () => { whole(); trying(look); });
  at("png").addEventListener("click", savePng);
  at("npy").addEventListener("click", () => trying(saveNpy));
  at("picture").addEventListener("keydown", keys);
  at("picture").addEventListener("focus", () => move(...shown.cursor));
  pointers();
  const tabs = [at("tab-picture"), at("tab-chunks")];
  const chosen = (tab) => { select(tab); tab.focus(); if (tab.id === "tab-chunks") trying(chunks); };
  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => chosen(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") chosen(tabs[1 - k]);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (shown.look !== null) trying(() => paint()); });
  const inside = packed("inside-data");
  const url = () => new URLSearchParams(location.search).get("url");
  const ofLink = () => openAddress(url(), fromLink());
  addEventListener("popstate", () => {
    const again = visits[history.state?.at];
    if (again !== undefined) again();
    else if (url() !== null) ofLink();
  });
  if (inside !== null) {
    const blob = new Blob([inside]);
    visit(() => open(blob, at("inside-data").dataset.name, fromLink(at("inside-data").dataset.link)));
  } else if (url() !== null) visit(ofLink);
  else document.body.dataset.state = "empty";
}

/** Draws another dimension in place of the given one, swapping them if both are drawn. */
async function reshape(dim, place) {
  const old = shown.drawn[place] ?? shown.drawn[0];
  const drawn = [...shown.drawn];
  const where = drawn.indexOf(dim);
  if (where >= 0) drawn[where] = old;
  else single(old, Math.floor(shown.axes[old].len / 2));
  drawn[Math.min(place, drawn.length - 1)] = dim;
  shown.drawn = drawn;
  whole();
  controls();
  await look();
}

begin();
