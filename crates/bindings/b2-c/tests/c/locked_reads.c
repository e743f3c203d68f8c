/* Reads of a frame with locking next to a writer in another process: each value that is read, also from several chunks, belongs to one
 * state that the frame had during the call, and so do copies. Arguments: the library that reads, the one that writes, the number of reads of each kind of
 * storage, a seed [the time]. Works in the current folder. C-Blosc2 as the reader fails: it mixes states, and misses new chunks. */
#define _GNU_SOURCE
#include "check.h"

#include "b2nd.h"
#include "blosc2/blosc2-stdio.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ITEMS 500
#define MAX_CHUNKS 24
#define STATES 4096
/* The number of chunks of an array, and of a super-chunk at first. */
#define START_CHUNKS 8

typedef struct {
  __typeof__(&blosc2_init) init;
  __typeof__(&blosc2_schunk_new) schunk_new;
  __typeof__(&blosc2_schunk_open_udio) open;
  __typeof__(&blosc2_schunk_free) schunk_free;
  __typeof__(&blosc2_schunk_append_buffer) append;
  __typeof__(&blosc2_schunk_insert_chunk) insert;
  __typeof__(&blosc2_schunk_update_chunk) update;
  __typeof__(&blosc2_schunk_delete_chunk) delete;
  __typeof__(&blosc2_schunk_decompress_chunk) decompress;
  __typeof__(&blosc2_schunk_get_slice_buffer) slice;
  __typeof__(&blosc2_schunk_get_lazychunk) lazy;
  __typeof__(&blosc2_schunk_get_chunk) chunk;
  __typeof__(&blosc2_vlmeta_add) vlmeta_add;
  __typeof__(&blosc2_vlmeta_update) vlmeta_update;
  __typeof__(&blosc2_vlmeta_get) vlmeta_get;
  __typeof__(&blosc2_create_cctx) create_cctx;
  __typeof__(&blosc2_compress_ctx) compress_ctx;
  __typeof__(&blosc2_free_ctx) free_ctx;
  __typeof__(&blosc2_remove_urlpath) remove;
  __typeof__(&blosc2_schunk_copy) copy;
  __typeof__(&b2nd_create_ctx) create_array_ctx;
  __typeof__(&b2nd_free_ctx) free_array_ctx;
  __typeof__(&b2nd_from_cbuffer) array_from;
  __typeof__(&b2nd_from_schunk) array_of;
  __typeof__(&b2nd_to_cbuffer) array_to;
  __typeof__(&b2nd_get_slice) array_slice;
  __typeof__(&b2nd_copy) array_copy;
  __typeof__(&b2nd_free) array_free;
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
  FIND(schunk_new, blosc2_schunk_new);
  FIND(open, blosc2_schunk_open_udio);
  FIND(schunk_free, blosc2_schunk_free);
  FIND(append, blosc2_schunk_append_buffer);
  FIND(insert, blosc2_schunk_insert_chunk);
  FIND(update, blosc2_schunk_update_chunk);
  FIND(delete, blosc2_schunk_delete_chunk);
  FIND(decompress, blosc2_schunk_decompress_chunk);
  FIND(slice, blosc2_schunk_get_slice_buffer);
  FIND(lazy, blosc2_schunk_get_lazychunk);
  FIND(chunk, blosc2_schunk_get_chunk);
  FIND(vlmeta_add, blosc2_vlmeta_add);
  FIND(vlmeta_update, blosc2_vlmeta_update);
  FIND(vlmeta_get, blosc2_vlmeta_get);
  FIND(create_cctx, blosc2_create_cctx);
  FIND(compress_ctx, blosc2_compress_ctx);
  FIND(free_ctx, blosc2_free_ctx);
  FIND(remove, blosc2_remove_urlpath);
  FIND(copy, blosc2_schunk_copy);
  FIND(create_array_ctx, b2nd_create_ctx);
  FIND(free_array_ctx, b2nd_free_ctx);
  FIND(array_from, b2nd_from_cbuffer);
  FIND(array_of, b2nd_from_schunk);
  FIND(array_to, b2nd_to_cbuffer);
  FIND(array_slice, b2nd_get_slice);
  FIND(array_copy, b2nd_copy);
  FIND(array_free, b2nd_free);
  lib.init();
  return lib;
}

/* The content of the frame after a change: the seed of each chunk, and that of the vlmetalayer. */
typedef struct {
  int nchunks;
  uint32_t seeds[MAX_CHUNKS], meta;
} state;

/* Shared by both processes. State `n` is at `n % STATES`. The writer stores a state, then announces it, then makes the change. */
static struct {
  _Atomic int64_t announced, done;
  _Atomic bool stop;
  /* Whether the frame is an array, whose chunks are only replaced. */
  bool is_array;
  state states[STATES];
} *shared;

static uint64_t seed;
static uint32_t pick(uint32_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

/* Items that compress well, badly or not at all, so that chunks have all sizes. */
static void fill(int32_t *items, uint32_t of) {
  uint32_t noise = of;
  for (int n = 0; n < ITEMS; n++) {
    noise = noise * 1664525 + 1013904223;
    items[n] = (int32_t)(of + (n % 8 < (int)(of % 9) ? noise >> 8 : 0));
  }
}

static int meta_content(uint8_t *content, uint32_t of) {
  int len = 8 + (int)(of % 200);
  for (int n = 0; n < len; n++) {
    content[n] = (uint8_t)(of >> n % 4 * 8);
  }
  return len;
}

static blosc2_stdio_params params = {.locking = true};
static blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};

/* Changes the frame in random ways until it shall stop. Returns whether all changes succeeded. */
static bool change(const library *lib) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.blocksize = ITEMS * sizeof(int32_t);
  blosc2_context *context = lib->create_cctx(cparams);
  blosc2_schunk *schunk = lib->open("shared", &io);
  static int32_t items[ITEMS];
  static uint8_t chunk[sizeof(items) + BLOSC2_MAX_OVERHEAD], content[300];
  bool good = schunk != NULL;
  for (int64_t number = 1; good && !atomic_load(&shared->stop); number++) {
    state *next = &shared->states[number % STATES];
    *next = shared->states[(number - 1) % STATES];
    uint32_t of = pick(UINT32_MAX), what = pick(20), at = pick((uint32_t)next->nchunks);
    what += shared->is_array ? 8 : 0;
    bool is_meta = what < 3, grows = what < 6, shrinks = what < 8 && what >= 6;
    grows = grows && !is_meta && next->nchunks < MAX_CHUNKS;
    shrinks = shrinks && next->nchunks > 2;
    if (is_meta) {
      next->meta = of;
    } else if (grows) {
      at = what == 3 ? (uint32_t)next->nchunks : at;
      memmove(next->seeds + at + 1, next->seeds + at, (MAX_CHUNKS - at - 1) * sizeof(uint32_t));
      next->seeds[at] = of;
      next->nchunks++;
    } else if (shrinks) {
      memmove(next->seeds + at, next->seeds + at + 1, (MAX_CHUNKS - at - 1) * sizeof(uint32_t));
      next->nchunks--;
    } else {
      next->seeds[at] = of;
    }
    fill(items, of);
    good = lib->compress_ctx(context, items, sizeof(items), chunk, sizeof(chunk)) > 0;
    atomic_store(&shared->announced, number);
    if (is_meta) {
      good = good && lib->vlmeta_update(schunk, "name", content, meta_content(content, of), NULL) >= 0;
    } else if (grows) {
      good = good && lib->insert(schunk, at, chunk, true) == next->nchunks;
    } else if (shrinks) {
      good = good && lib->delete(schunk, at) == next->nchunks;
    } else {
      good = good && lib->update(schunk, at, chunk, true) == next->nchunks;
    }
    atomic_store(&shared->done, number);
    if (pick(4) > 0) {
      usleep(pick(1500));
    }
  }
  lib->free_ctx(context);
  lib->schunk_free(schunk);
  return good;
}

static int32_t out[2 * ITEMS], expected[2 * ITEMS];

/* Returns whether the chunk read to `out + at`, or the lack of one, is that of a state. */
static bool is_chunk(const state *known, int nchunk, int at) {
  if (nchunk >= known->nchunks) {
    return false;
  }
  fill(expected + at, known->seeds[nchunk]);
  return memcmp(out + at, expected + at, ITEMS * sizeof(int32_t)) == 0;
}

static int32_t copied[MAX_CHUNKS * ITEMS];

/* Copies everything to `copied`: a super-chunk, or an array with other or the same chunks. Returns the number of chunks, or -1. */
static int copy(const library *lib, blosc2_schunk *schunk, b2nd_array_t *array) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.blocksize = ITEMS * sizeof(int32_t);
  blosc2_storage storage = {.contiguous = pick(2), .cparams = &cparams};
  if (array == NULL) {
    blosc2_schunk *made = lib->copy(schunk, &storage);
    int nchunks = made == NULL ? -1 : (int)made->nchunks;
    for (int n = 0; n < nchunks; n++) {
      CHECK(lib->decompress(made, n, copied + n * ITEMS, ITEMS * sizeof(int32_t)) > 0);
    }
    if (made != NULL) {
      lib->schunk_free(made);
    }
    return nchunks;
  }
  bool slices = pick(2);
  int64_t start = 0, shape = START_CHUNKS * ITEMS;
  int32_t chunk = slices ? 3 * ITEMS : ITEMS, block = ITEMS;
  b2nd_context_t *ctx = lib->create_array_ctx(&storage, 1, &shape, &chunk, &block, NULL, 0, NULL, 0);
  b2nd_array_t *made = NULL;
  int result = slices ? lib->array_slice(ctx, &made, array, &start, &shape) : lib->array_copy(ctx, array, &made);
  if (result >= 0) {
    CHECK(lib->array_to(made, copied, shape * (int64_t)sizeof(int32_t)) >= 0);
    lib->array_free(made);
  }
  lib->free_array_ctx(ctx);
  return result < 0 ? -1 : START_CHUNKS;
}

/* Returns whether `copied` has the chunks of a state. */
static bool is_copy(const state *known, int nchunks) {
  bool same = nchunks == known->nchunks;
  for (int n = 0; same && n < nchunks; n++) {
    fill(expected, known->seeds[n]);
    same = memcmp(copied + n * ITEMS, expected, ITEMS * sizeof(int32_t)) == 0;
  }
  return same;
}

/* Reads something, and returns whether a state that the frame had in the meantime has it. */
static bool read_right(const library *lib, blosc2_schunk *schunk, b2nd_array_t *array) {
  int kind = (int)pick(array == NULL ? 6 : 2), nchunk = (int)pick(MAX_CHUNKS);
  kind = array != NULL && kind == 1 ? 5 : kind;
  int64_t first = atomic_load(&shared->done);
  static uint8_t wanted[300];
  uint8_t *bytes = NULL;
  int32_t len = -1;
  bool needs_free = false;
  memset(out, 0xa5, sizeof(out));
  switch (kind) {
    case 0:
      len = lib->slice(schunk, (int64_t)nchunk * ITEMS, (int64_t)(nchunk + 2) * ITEMS, out);
      break;
    case 1:
      len = lib->decompress(schunk, nchunk, out, ITEMS * sizeof(int32_t));
      break;
    case 2:
      len = lib->vlmeta_get(schunk, "name", &bytes, &len) < 0 ? -1 : len;
      break;
    case 3:
      len = lib->chunk(schunk, nchunk, &bytes, &needs_free);
      break;
    case 5:
      len = copy(lib, schunk, array);
      break;
    default:
      len = lib->lazy(schunk, nchunk, &bytes, &needs_free);
  }
  int64_t last = atomic_load(&shared->announced);
  bool right = last - first >= STATES - 2;
  for (int64_t number = first; !right && number <= last; number++) {
    state known = shared->states[number % STATES];
    int needed = nchunk + (kind == 0);
    if (kind == 2) {
      right = len == meta_content(wanted, known.meta) && memcmp(bytes, wanted, (size_t)len) == 0;
    } else if (kind == 5) {
      right = is_copy(&known, len);
    } else if (len < 0) {
      right = needed >= known.nchunks;
    } else if (kind == 0) {
      right = is_chunk(&known, nchunk, 0) && is_chunk(&known, nchunk + 1, ITEMS);
    } else if (kind == 1) {
      right = is_chunk(&known, nchunk, 0);
    } else {
      right = nchunk < known.nchunks && len >= BLOSC_EXTENDED_HEADER_LENGTH;
    }
  }
  if (!right) {
    printf("kind %d, chunk %d, result %d, states %lld to %lld\n", kind, nchunk, len, (long long)first, (long long)last);
  }
  if (needs_free || kind == 2) {
    free(bytes);
  }
  return right;
}

static void reading(const library *reader, const library *writer, bool contiguous, bool is_array, int reads) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = "shared", .io = &io};
  writer->remove("shared");
  state *start = &shared->states[0];
  *start = (state){.nchunks = START_CHUNKS};
  static int32_t items[START_CHUNKS * ITEMS];
  for (int n = 0; n < start->nchunks; n++) {
    start->seeds[n] = pick(UINT32_MAX);
    fill(items + n * ITEMS, start->seeds[n]);
  }
  if (is_array) {
    int64_t shape = START_CHUNKS * ITEMS;
    int32_t chunk = ITEMS;
    b2nd_context_t *ctx = writer->create_array_ctx(&storage, 1, &shape, &chunk, &chunk, NULL, 0, NULL, 0);
    b2nd_array_t *array = NULL;
    CHECK(writer->array_from(ctx, &array, items, sizeof(items)) >= 0);
    writer->array_free(array);
    writer->free_array_ctx(ctx);
  } else {
    blosc2_schunk *schunk = writer->schunk_new(&storage);
    for (int n = 0; n < start->nchunks; n++) {
      CHECK(writer->append(schunk, items + n * ITEMS, ITEMS * sizeof(int32_t)) == n + 1);
    }
    uint8_t content[300];
    CHECK(writer->vlmeta_add(schunk, "name", content, meta_content(content, start->meta), NULL) >= 0);
    writer->schunk_free(schunk);
  }
  shared->is_array = is_array;
  atomic_store(&shared->announced, 0);
  atomic_store(&shared->done, 0);
  atomic_store(&shared->stop, false);
  pid_t child = fork();
  if (child == 0) {
    seed += 1;
    _exit(change(writer) ? 0 : 1);
  }
  blosc2_schunk *schunk = reader->open("shared", &io);
  CHECK(schunk != NULL);
  b2nd_array_t *array = NULL;
  CHECK(!is_array || reader->array_of(schunk, &array) >= 0);
  int wrong = 0, n = 0, status;
  for (; wrong == 0 && (n < reads || atomic_load(&shared->done) < reads / 10) && waitpid(child, &status, WNOHANG) == 0; n++) {
    wrong += !read_right(reader, schunk, array);
    if (!is_array && pick(20) == 0) {
      reader->schunk_free(schunk);
      schunk = reader->open("shared", &io);
      CHECK(schunk != NULL);
    }
  }
  CHECK(wrong == 0);
  CHECK(n >= reads);
  if (is_array) {
    reader->array_free(array);
  } else {
    reader->schunk_free(schunk);
  }
  atomic_store(&shared->stop, true);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const char *what = is_array ? "array" : "super-chunk", *where = contiguous ? "file" : "folder";
  printf("%s in a %s: %d reads next to %lld changes\n", what, where, n, (long long)atomic_load(&shared->done));
  reader->remove("shared");
  unlink("shared.b2lock");
}

int main(int argc, char **argv) {
  if (argc < 4) {
    return 2;
  }
  library reader = load(argv[1]), writer = load(argv[2]);
  seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL);
  printf("seed %llu\n", (unsigned long long)seed);
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int kind = 0; kind < 4; kind++) {
    reading(&reader, &writer, kind % 2 == 0, kind / 2 == 1, atoi(argv[3]));
  }
  return finish("locked_reads");
}
