/* A failed allocation gives an error code: each allocation of at least 64 KiB fails in turn. Smaller ones may end the process, and so
 * may the list of millions of chunks of a frame. */
#include "b2nd.h"

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE 65536
#define N 300000

/* Number of large allocations until one fails; negative: none fails. */
static long until = -1;

static bool fails(size_t size) {
  return size >= LARGE && until >= 0 && __atomic_fetch_sub(&until, 1, __ATOMIC_SEQ_CST) == 0;
}

/* The functions of the C library, which these replace in all libraries of the process. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *none(void) {
  errno = ENOMEM;
  return NULL;
}
void *malloc(size_t size) {
  return fails(size) ? none() : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
  return fails(n * size) ? none() : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
  bool grows = old == NULL || malloc_usable_size(old) < size;
  return grows && fails(size) ? none() : __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  return fails(size) ? none() : __libc_memalign(alignment, size);
}
int posix_memalign(void **to, size_t alignment, size_t size) {
  *to = fails(size) ? NULL : __libc_memalign(alignment, size);
  return *to == NULL ? ENOMEM : 0;
}

static int32_t items[N], out[N];
static int64_t coords[N];
static uint8_t room[sizeof(items) + BLOSC2_MAX_OVERHEAD];

/* Where chunks are: 0 in memory, 1 a contiguous frame in memory, 2 a file, 3 a folder. */
static int kind;
static blosc2_cparams cparams;
static blosc2_schunk *schunk;
static b2nd_array_t *array;

static blosc2_storage storage(const char *path) {
  cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  return (blosc2_storage){.contiguous = kind == 1 || kind == 2, .cparams = &cparams, .urlpath = kind > 1 ? (char *)path : NULL};
}

static b2nd_context_t *context(const char *path) {
  blosc2_storage stored = storage(path);
  const int64_t shape[2] = {600, 500};
  const int32_t chunks[2] = {200, 150}, blocks[2] = {100, 50};
  return b2nd_create_ctx(&stored, 2, shape, chunks, blocks, "<i4", 0, NULL, 0);
}

/* These files exist before any allocation fails. */
static void setup(void) {
  blosc2_storage stored = storage("schunk");
  schunk = blosc2_schunk_new(&stored);
  for (int n = 0; n < 3; n++) {
    blosc2_schunk_append_buffer(schunk, items + n * 100000, 400000);
  }
  blosc2_vlmeta_add(schunk, "large", (uint8_t *)coords, 200000, NULL);
  b2nd_context_t *ctx = context("array");
  b2nd_from_cbuffer(ctx, &array, items, sizeof(items));
  b2nd_free_ctx(ctx);
}

/* Functions with large allocations. Each returns a negative number after an error. */
static int64_t compresses(void) {
  cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.nthreads = (int16_t)(1 + kind % 2);
  cparams.compcode = (uint8_t[]){BLOSC_BLOSCLZ, BLOSC_LZ4, BLOSC_ZLIB, BLOSC_ZSTD}[kind];
  blosc2_context *compress = blosc2_create_cctx(cparams), *decompress = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  int64_t size = compress == NULL || decompress == NULL ? -1 : blosc2_compress_ctx(compress, items, sizeof(items), room, sizeof(room));
  if (size > 0) {
    size = blosc2_decompress_ctx(decompress, room, (int32_t)size, out, sizeof(out));
  }
  if (size > 0 && memcmp(items, out, sizeof(items)) != 0) {
    _exit(3);
  }
  if (size > 0) {
    size = blosc2_compress(5, 1, 4, items, sizeof(items), room, sizeof(room));
  }
  return size <= 0 ? -1 : blosc2_decompress(room, (int32_t)size, out, sizeof(out));
}
static int64_t creates(void) {
  blosc2_storage stored = storage("new");
  blosc2_schunk *new = blosc2_schunk_new(&stored);
  blosc2_schunk_free(new);
  return new == NULL ? -1 : 0;
}
static int64_t appends(void) {
  return blosc2_schunk_append_buffer(schunk, items, 400000);
}
static int64_t updates(void) {
  int size = blosc2_compress(5, 1, 4, items, 400000, room, sizeof(room));
  return size <= 0 ? -1 : blosc2_schunk_update_chunk(schunk, 1, room, true);
}
static int64_t inserts(void) {
  int size = blosc2_compress(5, 1, 4, items, 400000, room, sizeof(room));
  return size <= 0 ? -1 : blosc2_schunk_insert_chunk(schunk, 1, room, true);
}
static int64_t decompresses(void) {
  return blosc2_schunk_decompress_chunk(schunk, 1, out, 400000);
}
static int64_t gets(int (*get)(blosc2_schunk *, int64_t, uint8_t **, bool *)) {
  uint8_t *chunk = NULL;
  bool frees = false;
  int size = get(schunk, 2, &chunk, &frees);
  if (size > 0 && frees) {
    free(chunk);
  }
  return size;
}
static int64_t gets_chunk(void) {
  return gets(blosc2_schunk_get_chunk);
}
static int64_t gets_lazy(void) {
  return gets(blosc2_schunk_get_lazychunk);
}
static int64_t slices(void) {
  int result = blosc2_schunk_get_slice_buffer(schunk, 50000, 250000, out);
  return result < 0 ? result : blosc2_schunk_set_slice_buffer(schunk, 50000, 250000, out);
}
static int64_t sparse(void) {
  return blosc2_schunk_get_sparse_buffer(schunk, N, coords, out);
}
static int64_t reorders(void) {
  int64_t order[3] = {2, 0, 1};
  return blosc2_schunk_reorder_offsets(schunk, order);
}
static int64_t fills(void) {
  if (kind > 0) {
    return 0;
  }
  blosc2_storage stored = storage(NULL);
  blosc2_schunk *many = blosc2_schunk_new(&stored);
  int64_t result = many == NULL ? -1 : blosc2_schunk_fill_special(many, 2000000, BLOSC2_SPECIAL_ZERO, 400);
  /* All chunks or none. */
  if (result < 0 && many != NULL && blosc2_schunk_append_buffer(many, items, 400) != 1) {
    _exit(6);
  }
  blosc2_schunk_free(many);
  return result;
}
static int64_t vlmeta(void) {
  uint8_t *content = NULL;
  int32_t len;
  int result = blosc2_vlmeta_add(schunk, "more", (uint8_t *)coords, 100000, NULL);
  result = result < 0 ? result : blosc2_vlmeta_update(schunk, "large", (uint8_t *)coords, 300000, NULL);
  result = result < 0 ? result : blosc2_vlmeta_get(schunk, "large", &content, &len);
  if (result >= 0) {
    free(content);
  }
  return result;
}
static int64_t frames(void) {
  uint8_t *cframe = NULL;
  bool frees;
  int64_t size = blosc2_schunk_to_buffer(schunk, &cframe, &frees);
  if (size <= 0) {
    return -1;
  }
  blosc2_schunk *copy = blosc2_schunk_from_buffer(cframe, size, true);
  int64_t result = copy == NULL ? -1 : blosc2_schunk_decompress_chunk(copy, 1, out, 400000);
  blosc2_schunk_free(copy);
  if (frees) {
    free(cframe);
  }
  return result;
}
static int64_t saves(void) {
  return blosc2_schunk_to_file(schunk, "saved");
}
static int64_t copies(void) {
  blosc2_storage stored = storage("copy");
  cparams.clevel = 1;
  blosc2_schunk *copy = blosc2_schunk_copy(schunk, &stored);
  blosc2_schunk_free(copy);
  return copy == NULL ? -1 : 0;
}
static int64_t opens(void) {
  if (kind < 2) {
    return 0;
  }
  blosc2_schunk *opened = blosc2_schunk_open("schunk");
  blosc2_schunk_free(opened);
  return opened == NULL ? -1 : 0;
}
static int64_t makes_array(void) {
  b2nd_context_t *ctx = context("made");
  b2nd_array_t *made = NULL;
  int result = ctx == NULL ? -1 : b2nd_from_cbuffer(ctx, &made, items, sizeof(items));
  if (result == 0) {
    b2nd_free(made);
  }
  b2nd_free_ctx(ctx);
  return result;
}
static int64_t reads_array(void) {
  return b2nd_to_cbuffer(array, out, sizeof(out));
}
static const int64_t starts[2] = {50, 60}, stops[2] = {350, 460}, lens[2] = {300, 400};
static int64_t boxes(void) {
  int result = b2nd_get_slice_cbuffer(array, starts, stops, out, lens, sizeof(out));
  return result < 0 ? result : b2nd_set_slice_cbuffer(out, lens, sizeof(out), starts, stops, array);
}
static int64_t slices_array(void) {
  b2nd_context_t *ctx = context("slice");
  b2nd_array_t *slice = NULL;
  int result = ctx == NULL ? -1 : b2nd_get_slice(ctx, &slice, array, starts, stops);
  if (result == 0) {
    b2nd_free(slice);
  }
  b2nd_free_ctx(ctx);
  return result;
}
static int64_t resizes(void) {
  const int64_t larger[2] = {800, 700}, smaller[2] = {500, 300};
  int result = b2nd_resize(array, larger, NULL);
  return result < 0 ? result : b2nd_resize(array, smaller, NULL);
}
static int64_t appends_rows(void) {
  return b2nd_append(array, items, 100 * 500 * 4, 0);
}
static int64_t inserts_rows(void) {
  return b2nd_insert(array, items, 200 * 500 * 4, 0, 200);
}
static int64_t deletes_rows(void) {
  return b2nd_delete(array, 0, 200, 200);
}
static int64_t joins(void) {
  b2nd_context_t *ctx = context("joined");
  b2nd_array_t *both = NULL;
  int result = ctx == NULL ? -1 : b2nd_concatenate(ctx, array, array, 1, true, &both);
  if (result == 0) {
    b2nd_free(both);
  }
  b2nd_free_ctx(ctx);
  return result;
}
static int64_t copies_array(void) {
  b2nd_context_t *ctx = context("copied");
  b2nd_array_t *copy = NULL;
  int result = ctx == NULL ? -1 : b2nd_copy(ctx, array, &copy);
  if (result == 0) {
    b2nd_free(copy);
  }
  b2nd_free_ctx(ctx);
  return result;
}
static int64_t gathers(void) {
  return b2nd_get_sparse_cbuffer(array, N, coords, out, sizeof(out));
}
static int64_t positions(void) {
  static int64_t rows[3000], columns[20];
  for (int n = 0; n < 3000; n++) {
    rows[n] = n * 7 % 600;
  }
  for (int n = 0; n < 20; n++) {
    columns[n] = n * 11 % 500;
  }
  int64_t *selection[2] = {rows, columns}, sizes[2] = {3000, 20}, shape[2] = {3000, 20};
  int result = b2nd_get_orthogonal_selection(array, selection, sizes, out, shape, sizeof(out));
  return result < 0 ? result : b2nd_set_orthogonal_selection(array, selection, sizes, out, shape, sizeof(out));
}
static int64_t array_frames(void) {
  uint8_t *cframe = NULL;
  int64_t size;
  bool frees;
  int result = b2nd_to_cframe(array, &cframe, &size, &frees);
  if (result < 0) {
    return result;
  }
  b2nd_array_t *copy = NULL;
  result = b2nd_from_cframe(cframe, size, true, &copy);
  if (result == 0) {
    b2nd_free(copy);
  }
  if (frees) {
    free(cframe);
  }
  return result;
}
static int64_t saves_array(void) {
  return b2nd_save(array, "saved array");
}
static int64_t views(void) {
  b2nd_array_t *wide = NULL, *narrow = NULL;
  const bool axis[3] = {true, false, false};
  int result = b2nd_expand_dims(array, &wide, axis, 3);
  result = result < 0 ? result : b2nd_squeeze(wide, &narrow);
  result = result < 0 ? result : b2nd_to_cbuffer(narrow, out, sizeof(out));
  b2nd_free(narrow);
  b2nd_free(wide);
  return result;
}

static const struct {
  const char *name;
  int64_t (*run)(void);
} CASES[] = {{"compresses", compresses}, {"creates", creates}, {"appends", appends}, {"updates", updates}, {"inserts", inserts},
             {"decompresses", decompresses}, {"gets_chunk", gets_chunk}, {"gets_lazy", gets_lazy}, {"slices", slices},
             {"sparse", sparse}, {"reorders", reorders}, {"fills", fills}, {"vlmeta", vlmeta}, {"frames", frames},
             {"saves", saves}, {"copies", copies}, {"opens", opens}, {"makes_array", makes_array}, {"reads_array", reads_array},
             {"boxes", boxes}, {"slices_array", slices_array}, {"resizes", resizes}, {"appends_rows", appends_rows},
             {"inserts_rows", inserts_rows}, {"deletes_rows", deletes_rows}, {"joins", joins}, {"copies_array", copies_array},
             {"gathers", gathers}, {"positions", positions}, {"array_frames", array_frames}, {"saves_array", saves_array},
             {"views", views}};

static void remove_all(void) {
  const char *paths[] = {"schunk", "array", "new", "saved", "copy", "made", "slice", "joined", "copied", "saved array"};
  for (size_t n = 0; n < sizeof(paths) / sizeof(*paths); n++) {
    blosc2_remove_urlpath(paths[n]);
  }
}

/* Argument: the name of the only case to run, if any. */
int main(int argc, char **argv) {
  for (int n = 0; n < N; n++) {
    items[n] = n % 1000 * 7919;
    coords[n] = (int64_t)n * 7919 % N;
  }
  long nfailed = 0;
  for (kind = 0; kind < 4; kind++) {
    for (size_t n = 0; n < sizeof(CASES) / sizeof(*CASES); n++) {
      if (argc > 1 && strcmp(argv[1], CASES[n].name) != 0) {
        continue;
      }
      /* 0: an error, 1: no further allocation could fail. */
      int ended = 0;
      for (long nth = 0; ended == 0 && nth < 500; nth++) {
        remove_all();
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
          blosc2_init();
          setup();
          until = nth;
          int64_t result = CASES[n].run();
          bool failed_one = until < 0;
          until = -1;
          /* The old data can still be read. */
          bool readable = blosc2_schunk_decompress_chunk(schunk, 0, out, 400000) == 400000 &&
                          b2nd_get_slice_cbuffer(array, starts, (int64_t[]){100, 100}, out, lens, sizeof(out)) == 0;
          _exit(!readable ? 4 : failed_one ? 0 : result >= 0 ? 1 : 5);
        }
        int status = 0;
        waitpid(child, &status, 0);
        bool right = WIFEXITED(status) && WEXITSTATUS(status) <= 1;
        bool wrong_call = WIFEXITED(status) && WEXITSTATUS(status) == 5;
        if (!right) {
          printf("%s, kind %d, allocation %ld: %s %d\n", CASES[n].name, kind, nth, WIFEXITED(status) ? "exit" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
        ended = right ? WEXITSTATUS(status) : wrong_call;
        CHECK(right);
        nfailed += right && ended == 0;
      }
      CHECK(ended == 1);
    }
  }
  remove_all();
  CHECK(argc > 1 || nfailed > 200);
  return finish("no_memory");
}
