/* Speed of two libraries with files, in one process: alternating rounds, medians of the time of this thread. Arguments: both
 * libraries, and the start of the names of the cases [all]. Works in the current folder. */
#define _GNU_SOURCE
#include "b2nd.h"
#include "blosc2/blosc2-stdio.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 9
#define N 1000000

typedef struct {
  __typeof__(&blosc2_init) init;
  __typeof__(&b2nd_create_ctx) create_ctx;
  __typeof__(&b2nd_free_ctx) free_ctx;
  __typeof__(&b2nd_from_cbuffer) from_cbuffer;
  __typeof__(&b2nd_get_slice_cbuffer) get_slice;
  __typeof__(&b2nd_set_slice_cbuffer) set_slice;
  __typeof__(&b2nd_append) append;
  __typeof__(&b2nd_concatenate) concatenate;
  __typeof__(&b2nd_open) open;
  __typeof__(&b2nd_free) free;
  __typeof__(&blosc2_schunk_new) schunk_new;
  __typeof__(&blosc2_schunk_open) schunk_open;
  __typeof__(&blosc2_schunk_open_udio) schunk_open_udio;
  __typeof__(&blosc2_schunk_free) schunk_free;
  __typeof__(&blosc2_schunk_append_buffer) append_buffer;
  __typeof__(&blosc2_schunk_decompress_chunk) decompress_chunk;
  __typeof__(&blosc2_schunk_get_lazychunk) get_lazychunk;
  __typeof__(&blosc2_schunk_get_chunk) get_chunk;
  __typeof__(&blosc2_schunk_update_chunk) update_chunk;
  __typeof__(&blosc2_schunk_get_slice_buffer) get_slice_buffer;
  __typeof__(&blosc2_vlmeta_add) vlmeta_add;
  __typeof__(&blosc2_vlmeta_update) vlmeta_update;
  __typeof__(&blosc2_vlmeta_get) vlmeta_get;
  __typeof__(&blosc2_remove_urlpath) remove;
  __typeof__(&blosc2_create_cctx) create_cctx;
  __typeof__(&blosc2_compress_ctx) compress_ctx;
  __typeof__(&blosc2_free_ctx) free_context;
} library;

static library load(const char *path) {
  library lib = {0};
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == NULL) {
    printf("%s\n", dlerror());
    exit(2);
  }
#define FIND(field, name) *(void **)&lib.field = dlsym(handle, #name)
  FIND(init, blosc2_init);
  FIND(create_ctx, b2nd_create_ctx);
  FIND(free_ctx, b2nd_free_ctx);
  FIND(from_cbuffer, b2nd_from_cbuffer);
  FIND(get_slice, b2nd_get_slice_cbuffer);
  FIND(set_slice, b2nd_set_slice_cbuffer);
  FIND(append, b2nd_append);
  FIND(concatenate, b2nd_concatenate);
  FIND(open, b2nd_open);
  FIND(free, b2nd_free);
  FIND(schunk_new, blosc2_schunk_new);
  FIND(schunk_open, blosc2_schunk_open);
  FIND(schunk_open_udio, blosc2_schunk_open_udio);
  FIND(schunk_free, blosc2_schunk_free);
  FIND(append_buffer, blosc2_schunk_append_buffer);
  FIND(decompress_chunk, blosc2_schunk_decompress_chunk);
  FIND(get_lazychunk, blosc2_schunk_get_lazychunk);
  FIND(get_chunk, blosc2_schunk_get_chunk);
  FIND(update_chunk, blosc2_schunk_update_chunk);
  FIND(get_slice_buffer, blosc2_schunk_get_slice_buffer);
  FIND(vlmeta_add, blosc2_vlmeta_add);
  FIND(vlmeta_update, blosc2_vlmeta_update);
  FIND(vlmeta_get, blosc2_vlmeta_get);
  FIND(remove, blosc2_remove_urlpath);
  FIND(create_cctx, blosc2_create_cctx);
  FIND(compress_ctx, blosc2_compress_ctx);
  FIND(free_context, blosc2_free_ctx);
  lib.init();
  return lib;
}

static library libs[2];
static const char *only = "";
static int32_t *items, *out;
/* The library and the storage of the current case, and the objects of its setup. */
static library *lib;
static bool contiguous, locking;
static b2nd_array_t *array;
static blosc2_schunk *schunk;
static int counter;

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int order(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static void must(bool holds, const char *what) {
  if (!holds) {
    printf("failed: %s\n", what);
    exit(1);
  }
}
#define MUST(condition) must(condition, #condition)

static blosc2_stdio_params params = {.locking = true};
static blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};

/* An array of a million numbers in chunks of 10,000 and blocks of 1,000. */
static void make_array(const char *path, int32_t chunk, int64_t len) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = (char *)path};
  int32_t block = chunk < 1000 ? chunk : 1000;
  b2nd_context_t *ctx = lib->create_ctx(&storage, 1, &len, &chunk, &block, "<i4", 0, NULL, 0);
  MUST(lib->from_cbuffer(ctx, &array, items, len * 4) == 0);
  lib->free_ctx(ctx);
}

static void file(void) {
  make_array("file", 10000, N);
  lib->free(array);
  MUST(lib->open("file", &array) == 0);
  schunk = array->sc;
}
static void no_file(void) {
  lib->free(array);
  lib->remove("file");
}
static void closed_file(void) {
  file();
  lib->free(array);
}
static void remove_file(void) {
  lib->remove("file");
}
static void locked_file(void) {
  make_array("file", 1000, 10000);
  lib->free(array);
  schunk = lib->schunk_open_udio("file", &io);
}
static void no_locked_file(void) {
  lib->schunk_free(schunk);
  lib->remove("file");
}

static void open_array(void) {
  MUST(lib->open("file", &array) == 0);
  lib->free(array);
}
static void open_schunk(void) {
  schunk = lib->schunk_open("file");
  lib->schunk_free(schunk);
}
static void one_item(void) {
  int64_t start = (counter += 7919) % N, stop = start + 1, shape = 1;
  MUST(lib->get_slice(array, &start, &stop, out, &shape, 4) == 0 && out[0] == items[start]);
}
static void hundred_items(void) {
  int64_t start = (counter += 7919) % (N - 100);
  MUST(lib->get_slice_buffer(schunk, start, start + 100, out) == 0 && out[0] == items[start]);
}
static void a_chunk(void) {
  int64_t nchunk = (counter += 7) % schunk->nchunks;
  MUST(lib->decompress_chunk(schunk, nchunk, out, schunk->chunksize) == schunk->chunksize);
}
static void lazy_chunk(void) {
  uint8_t *chunk;
  bool frees;
  MUST(lib->get_lazychunk(schunk, (counter += 7) % schunk->nchunks, &chunk, &frees) > 0);
  if (frees) {
    free(chunk);
  }
}
static void vlmeta(void) {
  file();
  MUST(lib->vlmeta_add(schunk, "name", (uint8_t *)items, 100, NULL) >= 0);
}
static void get_vlmeta(void) {
  uint8_t *content;
  int32_t len;
  MUST(lib->vlmeta_get(schunk, "name", &content, &len) >= 0 && len >= 100);
  free(content);
}
static void update_vlmeta(void) {
  counter++;
  MUST(lib->vlmeta_update(schunk, "name", (uint8_t *)(items + counter % 100), 100 + counter % 3, NULL) >= 0);
}
static void open_get_vlmeta(void) {
  schunk = lib->schunk_open("file");
  get_vlmeta();
  lib->schunk_free(schunk);
}
static void closed_vlmeta(void) {
  vlmeta();
  lib->free(array);
}
static void new_schunk(const char *path) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = (char *)path, .io = locking ? &io : NULL};
  schunk = lib->schunk_new(&storage);
}
static void empty_file(void) {
  new_schunk("file");
}
static void empty_memory(void) {
  new_schunk(NULL);
}
static void free_memory(void) {
  lib->schunk_free(schunk);
}
static void append(void) {
  MUST(lib->append_buffer(schunk, items + (counter += 7) % 1000, 40000) > 0);
}
static void append_few(void) {
  MUST(lib->append_buffer(schunk, items + (counter += 7) % 1000, 400) > 0);
}
static void append_to_array(void) {
  MUST(lib->append(array, items, 40000, 0) == 0);
}
static blosc2_schunk *other;
static uint8_t changes[2][4000 + BLOSC2_MAX_OVERHEAD];
static void two_handles(void) {
  locked_file();
  other = lib->schunk_open_udio("file", &io);
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_context *context = lib->create_cctx(cparams);
  for (int n = 0; n < 2; n++) {
    MUST(lib->compress_ctx(context, items + n * 1000, 4000, changes[n], sizeof(changes[n])) > 0);
  }
  lib->free_context(context);
}
static void no_handles(void) {
  lib->schunk_free(other);
  no_locked_file();
}
static void change(void) {
  counter++;
  MUST(lib->update_chunk(other, counter % 10, changes[counter % 2], true) == 10);
}
static void change_and_read(void) {
  change();
  MUST(lib->decompress_chunk(schunk, counter % 10, out, 4000) == 4000 && out[0] == counter % 2 * 1000);
}
static void set_items(void) {
  int64_t start = (counter += 7919) % (N - 100), stop = start + 100, shape = 100;
  MUST(lib->set_slice(items + start, &shape, 400, &start, &stop, array) == 0);
}
static void ten_new_files(void) {
  new_schunk("file");
  MUST(lib->append_buffer(schunk, items, 4000) == 1);
  no_locked_file();
}
static b2nd_array_t *sources[2];
static void two_arrays(void) {
  for (int n = 0; n < 2; n++) {
    make_array(NULL, 10000, N);
    sources[n] = array;
  }
}
static void no_arrays(void) {
  lib->free(sources[0]);
  lib->free(sources[1]);
}
static void concatenate(void) {
  b2nd_array_t *both;
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = locking ? "file" : NULL};
  int64_t len = N;
  int32_t chunk = 10000, block = 1000;
  b2nd_context_t *ctx = lib->create_ctx(&storage, 1, &len, &chunk, &block, "<i4", 0, NULL, 0);
  MUST(lib->concatenate(ctx, sources[0], sources[1], 0, true, &both) == 0 && both->shape[0] == 2 * N);
  lib->free_ctx(ctx);
  lib->free(both);
  lib->remove("file");
}

/* A process that replaces chunks until it is killed, with the second library, so that both read next to the same writer. `pause` in
 * microseconds after each. */
static pid_t start_writer(int pause) {
  pid_t writer = fork();
  if (writer != 0) {
    return writer;
  }
  lib = &libs[1];
  static uint8_t chunk[4000 + BLOSC2_MAX_OVERHEAD];
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_context *context = lib->create_cctx(cparams);
  blosc2_schunk *own = lib->schunk_open_udio("file", &io);
  for (int n = 0;; n++) {
    MUST(lib->compress_ctx(context, items + n % 100, 4000, chunk, sizeof(chunk)) > 0);
    MUST(lib->update_chunk(own, n % 10, chunk, true) == 10);
    if (pause > 0) {
      usleep((useconds_t)pause);
    }
  }
}

/* Prints the number of calls per second of wall time next to a writer, and the CPU time of this thread for each call. */
static void next_to_a_writer(const char *name, void (*call)(void), int pause) {
  if (strncmp(name, only, strlen(only)) != 0) {
    return;
  }
  double rates[2][ROUNDS], spent[2][ROUNDS], longest[2] = {0, 0};
  for (int round = 0; round < ROUNDS; round++) {
    for (int turn = 0; turn < 2; turn++) {
      int which = (turn + round) % 2;
      lib = &libs[which];
      locked_file();
      pid_t writer = start_writer(pause);
      int calls = 0;
      double started = now(CLOCK_MONOTONIC), last = started, end, begun = now(CLOCK_THREAD_CPUTIME_ID);
      do {
        call();
        calls++;
        end = now(CLOCK_MONOTONIC);
        longest[which] = end - last > longest[which] ? end - last : longest[which];
        last = end;
      } while (end - started < 0.3);
      rates[which][round] = calls / (end - started);
      spent[which][round] = (now(CLOCK_THREAD_CPUTIME_ID) - begun) / calls;
      kill(writer, SIGKILL);
      waitpid(writer, NULL, 0);
      no_locked_file();
      unlink("file.b2lock");
    }
  }
  for (int which = 0; which < 2; which++) {
    qsort(rates[which], ROUNDS, sizeof(double), order);
    qsort(spent[which], ROUNDS, sizeof(double), order);
  }
  double ours = spent[0][ROUNDS / 2], theirs = spent[1][ROUNDS / 2];
  printf("%-40s %s ours %8.2f us, C %8.2f us: %.2f; %.0f/s, %.0f/s: %.2f; longest %.1f, %.1f ms\n", name, contiguous ? "file  " : "folder",
         ours * 1e6, theirs * 1e6, theirs / ours, rates[0][ROUNDS / 2], rates[1][ROUNDS / 2],
         rates[0][ROUNDS / 2] / rates[1][ROUNDS / 2], longest[0] * 1e3, longest[1] * 1e3);
  fflush(stdout);
}

/* Prints the time of a call with both libraries, and how much faster the first one is. */
static void compare(const char *name, void (*setup)(void), void (*call)(void), void (*cleanup)(void), int times) {
  if (strncmp(name, only, strlen(only)) != 0) {
    return;
  }
  double spent[2][ROUNDS], wall[2][ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    for (int turn = 0; turn < 2; turn++) {
      int which = (turn + round) % 2;
      lib = &libs[which];
      counter = round;
      setup();
      call();
      double started = now(CLOCK_THREAD_CPUTIME_ID), begun = now(CLOCK_MONOTONIC);
      for (int n = 0; n < times; n++) {
        call();
      }
      spent[which][round] = (now(CLOCK_THREAD_CPUTIME_ID) - started) / times;
      wall[which][round] = (now(CLOCK_MONOTONIC) - begun) / times;
      cleanup();
      unlink("file.b2lock");
    }
  }
  for (int which = 0; which < 2; which++) {
    qsort(spent[which], ROUNDS, sizeof(double), order);
    qsort(wall[which], ROUNDS, sizeof(double), order);
  }
  double ours = spent[0][ROUNDS / 2], theirs = spent[1][ROUNDS / 2];
  printf("%-40s %s ours %8.2f us, C %8.2f us: %.2f; wall %.2f\n", name, contiguous ? "file  " : "folder", ours * 1e6, theirs * 1e6,
         theirs / ours, wall[1][ROUNDS / 2] / wall[0][ROUNDS / 2]);
  fflush(stdout);
}

static void nothing(void) {
}

int main(int argc, char **argv) {
  if (argc < 3) {
    return 2;
  }
  libs[0] = load(argv[1]);
  libs[1] = load(argv[2]);
  only = argc > 3 ? argv[3] : "";
  items = malloc(N * sizeof(int32_t));
  out = malloc(N * sizeof(int32_t));
  for (int n = 0; n < N; n++) {
    items[n] = n;
  }
  printf("time of C-Blosc2 divided by ours, medians of %d rounds: above 1 ours is faster\n", ROUNDS);
  for (int kind = 0; kind < 2; kind++) {
    contiguous = kind == 0;
    compare("open: array", closed_file, open_array, remove_file, 300);
    compare("open: super-chunk", closed_file, open_schunk, remove_file, 300);
    compare("open: and get a vlmetalayer", closed_vlmeta, open_get_vlmeta, remove_file, 300);
    compare("read: one item", file, one_item, no_file, 2000);
    compare("read: 100 items of a super-chunk", file, hundred_items, no_file, 2000);
    compare("read: a chunk of 40 kB", file, a_chunk, no_file, 1000);
    compare("read: a lazy chunk", file, lazy_chunk, no_file, 2000);
    compare("vlmeta: get", vlmeta, get_vlmeta, no_file, 2000);
    compare("vlmeta: update", vlmeta, update_vlmeta, no_file, 200);
    compare("write: append 40 kB", empty_file, append, no_locked_file, 200);
    compare("write: append 400 bytes", empty_file, append_few, no_locked_file, 200);
    compare("write: append 40 kB in memory", empty_memory, append, free_memory, 500);
    compare("write: append 400 bytes in memory", empty_memory, append_few, free_memory, 500);
    compare("write: append to an array", file, append_to_array, no_file, 50);
    compare("write: set 100 items", file, set_items, no_file, 100);
    compare("write: a new file, a chunk", nothing, ten_new_files, nothing, 100);
    compare("join: aligned, in memory", two_arrays, concatenate, no_arrays, 5);
    locking = true;
    compare("join: aligned, to a file", two_arrays, concatenate, no_arrays, 5);
    compare("locking: read a chunk of 4 kB", locked_file, a_chunk, no_locked_file, 2000);
    compare("locking: read a lazy chunk", locked_file, lazy_chunk, no_locked_file, 2000);
    compare("locking: change a chunk", two_handles, change, no_handles, 200);
    compare("locking: the same, and read it elsewhere", two_handles, change_and_read, no_handles, 200);
    compare("locking: append 40 kB", empty_file, append, no_locked_file, 200);
    next_to_a_writer("writer that pauses: chunk", a_chunk, 1000);
    next_to_a_writer("writer that pauses: lazy chunk", lazy_chunk, 1000);
    next_to_a_writer("writer without pauses: chunk", a_chunk, 0);
    next_to_a_writer("writer without pauses: lazy chunk", lazy_chunk, 0);
    locking = false;
  }
  return 0;
}
