/* Many threads, and callbacks, with one object: contexts, super-chunks, arrays. Nothing here changes an object from two threads;
   all that reads one must be right, whatever else reads it. Built with the thread sanitizer, it says of races what it finds. */

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "b2nd.h"

enum { NTHREADS = 4, N = 20000, NCHUNKS = 4, ROUNDS = 12 };

static int32_t data[N];
static uint8_t chunk[sizeof(data) + 100];
static int cbytes;
static atomic_int wrong;

#define RIGHT(condition) (void)((condition) || (fprintf(stderr, "%s:%d: wrong\n", __FILE__, __LINE__), wrong++))

typedef struct {
  void (*work)(int n, void *shared);
  void *shared;
  int n;
} task;

static void *start(void *given) {
  task *mine = given;
  for (int round = 0; round < ROUNDS; round++) {
    mine->work(mine->n, mine->shared);
  }
  return NULL;
}

/* Runs `work` in all threads at the same time, with one object. */
static void together(void (*work)(int n, void *shared), void *shared) {
  pthread_t ids[NTHREADS];
  task tasks[NTHREADS];
  int before = wrong;
  for (int n = 0; n < NTHREADS; n++) {
    tasks[n] = (task){work, shared, n};
    pthread_create(&ids[n], NULL, start, &tasks[n]);
  }
  for (int n = 0; n < NTHREADS; n++) {
    pthread_join(ids[n], NULL);
  }
  CHECK(wrong == before);
}

static blosc2_cparams parameters(int nthreads) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.blocksize = 8192;
  cparams.nthreads = (int16_t)nthreads;
  return cparams;
}

/* One context for compressing. */
static void compress(int n, void *shared) {
  BLOSC_UNUSED_PARAM(n);
  uint8_t *mine = malloc(sizeof(chunk));
  RIGHT(blosc2_compress_ctx(shared, data, sizeof(data), mine, sizeof(chunk)) == cbytes);
  RIGHT(memcmp(mine, chunk, (size_t)cbytes) == 0);
  blosc2_cparams answer;
  RIGHT(blosc2_ctx_get_cparams(shared, &answer) == 0 && answer.typesize == 4);
  free(mine);
}

/* One context for decompressing. */
static void decompress(int n, void *shared) {
  int32_t *mine = malloc(sizeof(data));
  RIGHT(blosc2_decompress_ctx(shared, chunk, cbytes, mine, sizeof(data)) == (int)sizeof(data));
  RIGHT(memcmp(mine, data, sizeof(data)) == 0);
  RIGHT(blosc2_getitem_ctx(shared, chunk, cbytes, n * 100, 50, mine, 200) == 200 && mine[1] == data[n * 100 + 1]);
  free(mine);
}

/* The context of the process, with other parameters in each thread. */
static void process(int n, void *shared) {
  BLOSC_UNUSED_PARAM(shared);
  uint8_t *mine = malloc(sizeof(chunk));
  int32_t *back = malloc(sizeof(data));
  int typesize = 1 << n, size = blosc2_compress(5, 1, typesize, data, sizeof(data), mine, sizeof(chunk));
  RIGHT(size > 0 && mine[3] == typesize);
  RIGHT(blosc2_decompress(mine, size, back, sizeof(data)) == (int)sizeof(data) && memcmp(back, data, sizeof(data)) == 0);
  free(mine);
  free(back);
}

/* One super-chunk: all functions that read it. */
static void read_schunk(int n, void *shared) {
  blosc2_schunk *schunk = shared;
  int32_t *mine = malloc(sizeof(data));
  for (int64_t nchunk = 0; nchunk < NCHUNKS; nchunk++) {
    int64_t at = (nchunk + n) % NCHUNKS;
    RIGHT(blosc2_schunk_decompress_chunk(schunk, at, mine, sizeof(data)) == (int)sizeof(data));
    RIGHT(memcmp(mine, data, sizeof(data)) == 0);
    int64_t first = at * N + 77;
    RIGHT(blosc2_schunk_get_slice_buffer(schunk, first, first + 10, mine) == 0 && mine[9] == data[86]);
    int64_t coords[2] = {first, 5};
    RIGHT(blosc2_schunk_get_sparse_buffer(schunk, 2, coords, mine) == 0 && mine[0] == data[77] && mine[1] == data[5]);
    uint8_t *part, *content;
    bool needs_free;
    blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
    dparams.schunk = schunk;
    blosc2_context *own = blosc2_create_dctx(dparams);
    int size = blosc2_schunk_get_lazychunk(schunk, at, &part, &needs_free);
    RIGHT(size > 0 && blosc2_getitem_ctx(own, part, size, 300, 3, mine, 12) == 12 && mine[2] == data[302]);
    if (needs_free) {
      free(part);
    }
    size = blosc2_schunk_get_chunk(schunk, at, &part, &needs_free);
    RIGHT(size > 0 && blosc2_decompress_ctx(own, part, size, mine, sizeof(data)) == (int)sizeof(data));
    if (needs_free) {
      free(part);
    }
    blosc2_free_ctx(own);
    int32_t len;
    RIGHT(blosc2_vlmeta_get(schunk, "note", &content, &len) >= 0 && len == 4 && memcmp(content, "text", 4) == 0);
    free(content);
    char *names[1];
    RIGHT(blosc2_vlmeta_get_names(schunk, names) == 1 && strcmp(names[0], "note") == 0);
    blosc2_schunk_refresh(schunk);
  }
  free(mine);
}

static blosc2_schunk *filled(bool contiguous, char *urlpath, blosc2_cparams *cparams) {
  blosc2_remove_urlpath(urlpath == NULL ? "threads.none" : urlpath);
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(schunk != NULL);
  for (int n = 0; n < NCHUNKS; n++) {
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == n + 1);
  }
  CHECK(blosc2_vlmeta_add(schunk, "note", (uint8_t *)"text", 4, NULL) == 0);
  return schunk;
}

/* One array. */
static void read_array(int n, void *shared) {
  b2nd_array_t *array = shared;
  int32_t *mine = malloc(sizeof(data));
  RIGHT(b2nd_to_cbuffer(array, mine, sizeof(data)) == 0 && memcmp(mine, data, sizeof(data)) == 0);
  int64_t start[2] = {10 + n, 20}, stop[2] = {15 + n, 30}, shape[2] = {5, 10};
  RIGHT(b2nd_get_slice_cbuffer(array, start, stop, mine, shape, 200) == 0 && mine[11] == data[(11 + n) * 200 + 21]);
  int64_t rows[1] = {n}, columns[2] = {3, 199}, *selection[2] = {rows, columns}, sizes[2] = {1, 2};
  RIGHT(b2nd_get_orthogonal_selection(array, selection, sizes, mine, sizes, 8) == 0 && mine[1] == data[n * 200 + 199]);
  RIGHT(b2nd_refresh(array) == 0);
  free(mine);
}

static void arrays(char *urlpath) {
  blosc2_cparams cparams = parameters(1);
  int64_t shape[2] = {100, 200};
  int32_t chunks[2] = {40, 70}, blocks[2] = {20, 30};
  blosc2_storage storage = {.contiguous = true, .urlpath = urlpath, .cparams = &cparams};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunks, blocks, "<i4", 0, NULL, 0);
  b2nd_array_t *array;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data)) == 0);
  together(read_array, array);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

/* A block function, on four threads, reads the super-chunk that receives its result, and uses its own context. */
static int look_back(blosc2_prefilter_params *params) {
  blosc2_schunk *schunk = params->user_data;
  int32_t nitems = params->output_size / 4, first = params->output_offset / 4;
  if (schunk->nchunks == 0) {
    memcpy(params->output, params->input, (size_t)params->output_size);
    return 0;
  }
  uint8_t *part;
  bool needs_free;
  blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
  dparams.schunk = schunk;
  blosc2_context *own = blosc2_create_dctx(dparams);
  int size = blosc2_schunk_get_lazychunk(schunk, 0, &part, &needs_free);
  int got = blosc2_getitem_ctx(own, part, size, first, nitems, params->output, params->output_size);
  if (needs_free) {
    free(part);
  }
  blosc2_free_ctx(own);
  blosc2_cparams answer;
  RIGHT(blosc2_ctx_get_cparams(params->ctx, &answer) == 0 && answer.typesize == 4);
  return got == params->output_size ? 0 : -1;
}

static void looking_back(bool contiguous, char *urlpath) {
  blosc2_remove_urlpath(urlpath == NULL ? "threads.none" : urlpath);
  blosc2_cparams cparams = parameters(1);
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  blosc2_prefilter_params pre = {.user_data = schunk};
  cparams.schunk = schunk;
  cparams.nthreads = NTHREADS;
  cparams.prefilter = look_back;
  cparams.preparams = &pre;
  blosc2_free_ctx(schunk->cctx);
  schunk->cctx = blosc2_create_cctx(cparams);
  static int32_t zeros[N], back[N];
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  CHECK(blosc2_schunk_append_buffer(schunk, zeros, sizeof(zeros)) == 2);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 1, back, sizeof(back)) == (int)sizeof(back));
  CHECK(memcmp(back, data, sizeof(data)) == 0 && wrong == 0);
  blosc2_schunk_free(schunk);
}

/* A function for blocks decompresses with the context that calls it, once. */
static int again(blosc2_postfilter_params *params) {
  static _Thread_local int depth;
  memcpy(params->output, params->input, (size_t)params->size);
  if (depth == 0) {
    int32_t *mine = malloc(sizeof(data));
    depth++;
    RIGHT(blosc2_decompress_ctx(params->ctx, chunk, cbytes, mine, sizeof(data)) == (int)sizeof(data));
    RIGHT(memcmp(mine, data, sizeof(data)) == 0);
    depth--;
    free(mine);
  }
  return 0;
}

static void calling_back(int nthreads) {
  blosc2_postfilter_params post = {.user_data = NULL};
  blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
  dparams.postfilter = again;
  dparams.postparams = &post;
  dparams.nthreads = (int16_t)nthreads;
  blosc2_context *dctx = blosc2_create_dctx(dparams);
  static int32_t back[N];
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(back));
  CHECK(memcmp(back, data, sizeof(back)) == 0 && wrong == 0);
  blosc2_free_ctx(dctx);
}

/* A codec removes the chunk that it decodes. */
static blosc2_schunk *doomed;

static int keep(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                blosc2_cparams *cparams, const void *unused) {
  BLOSC_UNUSED_PARAM(meta);
  BLOSC_UNUSED_PARAM(cparams);
  BLOSC_UNUSED_PARAM(unused);
  if (output_len < input_len / 2) {
    return 0;
  }
  for (int n = 0; n < input_len / 4; n++) {
    ((uint16_t *)output)[n] = (uint16_t)((const int32_t *)input)[n];
  }
  return input_len / 2;
}

static int give_and_remove(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                           blosc2_dparams *dparams, const void *unused) {
  BLOSC_UNUSED_PARAM(meta);
  BLOSC_UNUSED_PARAM(dparams);
  BLOSC_UNUSED_PARAM(unused);
  if (doomed != NULL && doomed->nchunks > 0) {
    RIGHT(blosc2_schunk_delete_chunk(doomed, 0) == 0);
  }
  for (int n = 0; n < input_len / 2; n++) {
    ((int32_t *)output)[n] = ((const uint16_t *)input)[n];
  }
  return output_len;
}

static void removing(void) {
  blosc2_codec codec = {.compcode = 233, .compname = "halves", .complib = 233, .version = 1};
  codec.encoder = keep;
  codec.decoder = give_and_remove;
  CHECK(blosc2_register_codec(&codec) == 0);
  blosc2_cparams cparams = parameters(1);
  cparams.compcode = 233;
  cparams.filters[BLOSC2_MAX_FILTERS - 1] = 0;
  cparams.splitmode = BLOSC_NEVER_SPLIT;
  blosc2_storage storage = {.cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  static int32_t back[N];
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  doomed = schunk;
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, back, sizeof(back)) == (int)sizeof(back));
  CHECK(schunk->nchunks == 0 && memcmp(back, data, sizeof(back)) == 0 && wrong == 0);
  doomed = NULL;
  blosc2_schunk_free(schunk);
}

int main(void) {
  blosc2_init();
  for (int n = 0; n < N; n++) {
    data[n] = n;
  }
  blosc2_cparams cparams = parameters(1);
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
  CHECK(cbytes > 0);
  together(compress, cctx);
  blosc2_free_ctx(cctx);
  for (int nthreads = 1; nthreads <= 2; nthreads++) {
    blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
    dparams.nthreads = (int16_t)nthreads;
    blosc2_context *dctx = blosc2_create_dctx(dparams);
    together(decompress, dctx);
    blosc2_free_ctx(dctx);
    calling_back(nthreads);
  }
  together(process, NULL);
  char *paths[3] = {NULL, NULL, "threads.b2frame"};
  for (int kind = 0; kind < 3; kind++) {
    blosc2_schunk *schunk = filled(kind > 0, paths[kind], &cparams);
    together(read_schunk, schunk);
    blosc2_schunk_free(schunk);
    looking_back(kind > 0, paths[kind]);
    if (kind > 0) {
      blosc2_remove_urlpath("threads.b2nd");
      arrays(kind == 1 ? NULL : "threads.b2nd");
    }
  }
  blosc2_remove_urlpath("threads.b2frame");
  blosc2_remove_urlpath("threads.b2nd");
  removing();
  blosc2_destroy();
  return finish("threads");
}
