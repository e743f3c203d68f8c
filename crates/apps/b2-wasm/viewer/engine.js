// The page's interface to the engine: commands are calls that return promises.
"use strict";

/** Interval of heartbeats of the worker, and time without one after which the page reports it; in milliseconds. */
const HEARTBEAT_INTERVAL = 500;
const SLOW_AFTER = 2000;

/** An error about the file, with a message for users. */
class Problem extends Error {}

class Engine {
  /**
   * `source()` returns the wasm module, `worker()` a new worker. `counted(counts)` receives requests and bytes. `slow(time,
   * waits)` receives for how many milliseconds the worker has been decoding without a break or, if `waits`, waiting for a server, if
   * that is long, and 0 afterwards.
   */
  constructor(source, worker, counted, slow) {
    this.source = source;
    this.newWorker = worker;
    this.counted = counted;
    this.slow = slow;
    this.isSlow = false;
    this.tasks = new Map();
    this.next = 1;
    this.files = 0;
    /** Grows with each restart of the engine: handles of older ones are invalid. */
    this.generation = 0;
    this.start();
    setInterval(() => this.watch(), HEARTBEAT_INTERVAL);
  }

  start() {
    this.generation += 1;
    this.began = false;
    this.asked = null;
    /** For how many milliseconds servers have sent nothing for pending requests. */
    this.waiting = 0;
    const worker = this.newWorker();
    this.worker = worker;
    this.ready = new Promise((resolve, reject) => {
      this.broken = reject;
      worker.onmessage = ({ data }) => {
        if (data.ready) {
          this.began = true;
          resolve();
        } else if (data.alive) {
          this.asked = null;
          this.waiting = data.waiting;
          this.watch();
        } else if (data.stopped !== undefined) {
          this.fail(data.stopped);
        } else {
          this.answer(data);
        }
      };
      worker.onerror = (event) => this.fail(event.message ?? "the worker does not start");
    });
    this.ready.catch(() => {});
    this.source().then((module) => worker.postMessage({ start: module }), (error) => this.fail(error.message));
  }

  /** Sends a heartbeat request, which the worker cannot answer while it decodes. */
  watch() {
    const now = performance.now();
    if (this.tasks.size === 0) this.waiting = 0;
    const decoding = this.asked === null ? 0 : now - this.asked;
    const time = Math.max(decoding, this.waiting);
    if (time > SLOW_AFTER || this.isSlow) this.slow(time > SLOW_AFTER ? time : 0, decoding <= SLOW_AFTER);
    this.isSlow = time > SLOW_AFTER;
    if (this.began && this.asked === null && this.tasks.size > 0) {
      this.asked = now;
      this.worker.postMessage({ alive: true });
    }
  }

  /** Stops the worker. */
  stop() {
    this.fail(null);
    this.watch();
  }

  /** Fails all open tasks and starts another engine, unless this one could not start either. */
  fail(why) {
    const tasks = [...this.tasks.values()];
    this.tasks.clear();
    this.worker.terminate();
    if (!this.began) {
      const problem = new Problem(`The reader does not start: ${why}`);
      this.broken(problem);
      for (const task of tasks) task.reject(problem);
      return;
    }
    const words = why === null ? "Reading this file took too long and was stopped. The page still works."
      : `This file stopped the reader (${why}). The page goes on; open another file.`;
    for (const task of tasks) task.reject(new Problem(words));
    this.start();
  }

  answer({ task, answer, error, bytes, counts }) {
    this.counted(counts);
    const waiting = this.tasks.get(task);
    this.tasks.delete(task);
    if (waiting === undefined) return;
    if (error !== undefined) waiting.reject(new Problem(error));
    else waiting.resolve({ answer, bytes });
  }

  /** Registers a file or an address; returns its number. */
  async add(source) {
    await this.ready;
    const file = ++this.files;
    this.worker.postMessage({ file, source });
    return file;
  }

  /** Calls the engine. The promise has a method `cancel`. */
  call(name, values = {}) {
    const task = this.next++;
    const lines = Object.entries(values).map(([key, value]) => `${key}=${String(value).replaceAll("\n", " ")}`);
    const promise = new Promise((resolve, reject) => {
      this.tasks.set(task, { resolve, reject });
      this.ready.then(() => this.worker.postMessage({ call: task, command: [name, ...lines].join("\n") }), reject);
    });
    promise.cancel = () => {
      if (this.tasks.delete(task)) this.worker.postMessage({ cancel: task });
    };
    return promise;
  }
}
