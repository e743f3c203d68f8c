/* Callbacks of programs, files through functions of programs, and the small functions. */
#include "b2nd.h"

#include <pthread.h>

#include "check.h"

#define N 100000

static int32_t data[N], back[N];
static uint8_t chunk[sizeof(data) + BLOSC2_MAX_OVERHEAD];

/* Adds the number that `user_data` points to. */
static int add_before(blosc2_prefilter_params *params) {
  const int32_t *from = (const int32_t *)params->input;
  int32_t *to = (int32_t *)params->output;
  for (int n = 0; n < params->output_size / 4; n++) {
    to[n] = from[n] + *(int32_t *)params->user_data;
  }
  return params->tid < 0 || params->tid >= 4 || params->ttmp_nbytes == 0;
}

static int add_after(blosc2_postfilter_params *params) {
  const int32_t *from = (const int32_t *)params->input;
  int32_t *to = (int32_t *)params->output;
  for (int n = 0; n < params->size / 4; n++) {
    to[n] = from[n] + *(int32_t *)params->user_data;
  }
  return 0;
}

static int fails_before(blosc2_prefilter_params *params) {
  BLOSC_UNUSED_PARAM(params);
  return 1;
}

static int fails_after(blosc2_postfilter_params *params) {
  BLOSC_UNUSED_PARAM(params);
  return 1;
}

static void hooks(void) {
  for (int16_t nthreads = 1; nthreads < 4; nthreads += 2) {
    int32_t five = 5, seven = 7;
    blosc2_prefilter_params pre = {.user_data = &five};
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    cparams.nthreads = nthreads;
    cparams.blocksize = 16384;
    cparams.prefilter = add_before;
    cparams.preparams = &pre;
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    blosc2_postfilter_params post = {.user_data = &seven};
    blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
    dparams.nthreads = nthreads;
    dparams.postfilter = add_after;
    dparams.postparams = &post;
    blosc2_context *dctx = blosc2_create_dctx(dparams);
    int cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
    CHECK(cbytes > 0);
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(back));
    CHECK(back[0] == data[0] + 12 && back[N - 1] == data[N - 1] + 12);
    blosc2_free_ctx(cctx);
    blosc2_free_ctx(dctx);
    cparams.prefilter = fails_before;
    cctx = blosc2_create_cctx(cparams);
    CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk + cbytes, (int)sizeof(chunk) - cbytes) < 0);
    dparams.postfilter = fails_after;
    dctx = blosc2_create_dctx(dparams);
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) < 0);
    blosc2_free_ctx(cctx);
    blosc2_free_ctx(dctx);
  }
}

/* Stores the first number and the step of an arithmetic series. */
static int encode(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                  blosc2_cparams *cparams, const void *unused) {
  BLOSC_UNUSED_PARAM(unused);
  if (meta != 9 || cparams->typesize != 4) {
    return -1;
  }
  const int32_t *from = (const int32_t *)input;
  for (int n = 1; n < input_len / 4; n++) {
    if (from[n] - from[n - 1] != from[1] - from[0]) {
      return 0;
    }
  }
  if (output_len < 8) {
    return 0;
  }
  int32_t pair[2] = {from[0], from[1] - from[0]};
  memcpy(output, pair, 8);
  return 8;
}

static int decode(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                  blosc2_dparams *dparams, const void *unused) {
  BLOSC_UNUSED_PARAM(unused);
  BLOSC_UNUSED_PARAM(dparams);
  if (meta != 9 || input_len != 8) {
    return -1;
  }
  int32_t pair[2], *to = (int32_t *)output;
  memcpy(pair, input, 8);
  for (int n = 0; n < output_len / 4; n++) {
    to[n] = pair[0] + n * pair[1];
  }
  return output_len;
}

static int invert(const uint8_t *from, uint8_t *to, int32_t size) {
  for (int n = 0; n < size; n++) {
    to[n] = (uint8_t)~from[n];
  }
  return 0;
}

static int forward(const uint8_t *from, uint8_t *to, int32_t size, uint8_t meta, blosc2_cparams *cparams, uint8_t id) {
  return cparams->typesize != 4 || meta != 3 || id != 200 ? -1 : invert(from, to, size);
}

static int backward(const uint8_t *from, uint8_t *to, int32_t size, uint8_t meta, blosc2_dparams *dparams, uint8_t id) {
  return dparams == NULL || meta != 3 || id != 200 ? -1 : invert(from, to, size);
}

static void plugins(void) {
  blosc2_codec codec = {.compcode = 222, .compname = "series", .complib = 222, .version = 1};
  codec.encoder = encode;
  codec.decoder = decode;
  CHECK(blosc2_register_codec(&codec) == 0 && blosc2_register_codec(&codec) == 0);
  CHECK(blosc2_compname_to_compcode("series") == 222);
  char *library = NULL, *version = NULL;
  CHECK(blosc2_get_complib_info("series", &library, &version) == 222 && strcmp(library, "series") == 0);
  free(library);
  free(version);
  blosc2_codec other = codec;
  other.compname = "other";
  CHECK(blosc2_register_codec(&other) < 0);
  other.compcode = 5;
  CHECK(blosc2_register_codec(&other) < 0);
  blosc2_filter filter = {.id = 200, .name = "inverted", .version = 1, .forward = forward, .backward = backward};
  CHECK(blosc2_register_filter(&filter) == 0);
  filter.id = 3;
  CHECK(blosc2_register_filter(&filter) < 0);
  for (int n = 0; n < 2; n++) {
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    cparams.nthreads = 2;
    cparams.filters[5] = 0;
    if (n == 0) {
      cparams.compcode = 222;
      cparams.compcode_meta = 9;
    } else {
      cparams.filters[5] = 200;
      cparams.filters_meta[5] = 3;
    }
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
    int cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
    CHECK(cbytes > 0 && (n == 1 || cbytes < 1000));
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(back));
    CHECK(memcmp(data, back, sizeof(data)) == 0);
    blosc2_free_ctx(cctx);
    blosc2_free_ctx(dctx);
  }
}

/* The calls of the tuner, in order. */
static char reported[64];

static void tell(char what, int right) {
  size_t len = strlen(reported);
  reported[len < sizeof(reported) - 1 ? len : 0] = right ? what : '!';
}

static int begin_tuner(void *config, blosc2_context *cctx, blosc2_context *dctx) {
  tell('i', cctx != NULL && dctx == NULL && *(int *)config == 3);
  return 0;
}

static int choose(blosc2_context *context) {
  blosc2_cparams cparams;
  tell('c', blosc2_ctx_get_cparams(context, &cparams) == 0 && cparams.tuner_id >= 180);
  return 0;
}

static int choose_blocksize(blosc2_context *context) {
  tell('b', context != NULL);
  return 0;
}

static int learn(blosc2_context *context, double seconds) {
  tell('u', context != NULL && seconds > 0 && seconds < 100);
  return 0;
}

static int end_tuner(blosc2_context *context) {
  tell('f', context != NULL);
  return 0;
}

static int refuse(blosc2_context *context) {
  BLOSC_UNUSED_PARAM(context);
  return -1;
}

static void tuners(void) {
  blosc2_tuner tuner = {.init = begin_tuner, .next_cparams = choose, .next_blocksize = choose_blocksize};
  tuner.update = learn;
  tuner.free = end_tuner;
  tuner.id = 180;
  tuner.name = "mine";
  CHECK(blosc2_register_tuner(&tuner) == 0 && blosc2_register_tuner(&tuner) < 0);
  int config = 3;
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.tuner_id = 180;
  cparams.tuner_params = &config;
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) > 0);
  CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) > 0);
  blosc2_free_ctx(cctx);
  CHECK(strcmp(reported, "icbucbuf") == 0);
  memset(reported, 0, sizeof(reported));
  blosc2_storage storage = {.cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  blosc2_schunk_free(schunk);
  CHECK(strcmp(reported, "icbuf") == 0);
  /* If the tuner fails, so does compressing. */
  tuner.id = 182;
  tuner.name = "refuses";
  tuner.next_blocksize = refuse;
  CHECK(blosc2_register_tuner(&tuner) == 0);
  cparams.tuner_id = 182;
  cctx = blosc2_create_cctx(cparams);
  CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) == BLOSC2_ERROR_TUNER);
  blosc2_free_ctx(cctx);
  cparams.tuner_id = 181;
  CHECK(blosc2_create_cctx(cparams) == NULL);
}

typedef struct {
  void (*dojob)(void *);
  char *job;
} work;

static void *start(void *given) {
  work *mine = given;
  mine->dojob(mine->job);
  return NULL;
}

static int threads_calls;

static void threads(void *callback_data, void (*dojob)(void *), int numjobs, size_t size, void *jobs) {
  pthread_t ids[16];
  work list[16];
  *(int *)callback_data += numjobs;
  for (int n = 0; n < numjobs && n < 16; n++) {
    list[n].dojob = dojob;
    list[n].job = (char *)jobs + (size_t)n * size;
    pthread_create(&ids[n], NULL, start, &list[n]);
  }
  for (int n = 0; n < numjobs && n < 16; n++) {
    pthread_join(ids[n], NULL);
  }
}

static void own_threads(void) {
  blosc2_set_threads_callback(threads, &threads_calls);
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.nthreads = 4;
  cparams.blocksize = 8192;
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  int cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
  CHECK(cbytes > 0 && threads_calls == 4);
  blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
  dparams.nthreads = 3;
  blosc2_context *dctx = blosc2_create_dctx(dparams);
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(back));
  CHECK(memcmp(data, back, sizeof(data)) == 0 && threads_calls == 7);
  /* Items of several blocks. Their order, and the file, do not matter. */
  char *urlpath = "sparse.b2frame";
  for (int in_file = 0; in_file < 2; in_file++) {
    blosc2_storage storage = {.cparams = &cparams, .dparams = &dparams, .contiguous = true, .urlpath = in_file ? urlpath : NULL};
    blosc2_schunk *schunk = blosc2_schunk_new(&storage);
    CHECK(blosc2_schunk_append_chunk(schunk, chunk, true) == 1);
    int64_t coords[4] = {N - 1, 0, 2048, 1};
    int before = threads_calls;
    CHECK(blosc2_schunk_get_sparse_buffer(schunk, 4, coords, back) == 0 && threads_calls > before);
    for (int n = 0; n < 4; n++) {
      CHECK(memcmp(back + n, data + coords[n], 4) == 0);
    }
    blosc2_schunk_free(schunk);
  }
  blosc2_remove_urlpath(urlpath);
  int calls = threads_calls;
  blosc2_set_threads_callback(NULL, NULL);
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(back) && threads_calls == calls);
  blosc2_free_ctx(cctx);
  blosc2_free_ctx(dctx);
}

static int opened, closed, destroyed;

static void *my_open(const char *urlpath, const char *mode, void *params) {
  opened += *(int *)params == 6;
  return blosc2_stdio_open(urlpath, mode, NULL);
}

static int my_close(void *stream) {
  closed++;
  return blosc2_stdio_close(stream);
}

static int my_destroy(void *params) {
  destroyed += *(int *)params == 6;
  return 0;
}

static void same_chunks(blosc2_schunk *schunk) {
  for (int64_t n = 0; n < schunk->nchunks; n++) {
    memset(back, 1, sizeof(back));
    CHECK(blosc2_schunk_decompress_chunk(schunk, n, back, sizeof(back)) == (int)sizeof(back));
    CHECK(memcmp(data, back, sizeof(back)) == 0);
  }
}

/* After the file is rewritten, for a metalayer or because it was empty, later changes go to the new file. */
static void files_anew(const blosc2_io *io) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = true, .urlpath = "again.b2frame", .cparams = &cparams, .io = (blosc2_io *)io};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(schunk != NULL);
  CHECK(blosc2_vlmeta_add(schunk, "note", (uint8_t *)"n", 1, NULL) == 0);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  CHECK(blosc2_meta_add(schunk, "first", (uint8_t *)"0123", 4) == 0);
  CHECK(blosc2_meta_add(schunk, "late", (uint8_t *)"x", 1) == 1);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 2);
  CHECK(blosc2_meta_add(schunk, "later", (uint8_t *)"yz", 2) == 2);
  CHECK(blosc2_meta_update(schunk, "late", (uint8_t *)"X", 1) == 1);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 3);
  same_chunks(schunk);
  CHECK(blosc2_schunk_free(schunk) == 0);
  schunk = blosc2_schunk_open("again.b2frame");
  CHECK(schunk != NULL && schunk->nchunks == 3 && schunk->nmetalayers == 3);
  CHECK(blosc2_vlmeta_exists(schunk, "note") == 0 && memcmp(schunk->metalayers[1]->content, "X", 1) == 0);
  same_chunks(schunk);
  blosc2_schunk_free(schunk);
  blosc2_remove_urlpath("again.b2frame");
}

static void files(void) {
  blosc2_io_cb functions = {.id = 240, .name = "mine", .is_allocation_necessary = true};
  functions.open = my_open;
  functions.close = my_close;
  functions.size = blosc2_stdio_size;
  functions.write = blosc2_stdio_write;
  functions.read = blosc2_stdio_read;
  functions.truncate = blosc2_stdio_truncate;
  functions.destroy = my_destroy;
  CHECK(blosc2_register_io_cb(&functions) == 0 && blosc2_register_io_cb(&functions) == 0);
  CHECK(blosc2_get_io_cb(240)->open == my_open && blosc2_get_io_cb(241) == NULL);
  CHECK(blosc2_get_io_cb(BLOSC2_IO_FILESYSTEM)->open == blosc2_stdio_open);
  CHECK(blosc2_get_io_cb(BLOSC2_IO_FILESYSTEM_MMAP)->destroy == blosc2_stdio_mmap_destroy);
  int six = 6;
  blosc2_io io = {.id = 240, .name = "mine", .params = &six};
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = true, .urlpath = "mine.b2frame", .cparams = &cparams, .io = &io};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(schunk != NULL);
  for (int n = 0; schunk != NULL && n < 3; n++) {
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == n + 1);
  }
  same_chunks(schunk);
  CHECK(blosc2_schunk_free(schunk) == 0);
  schunk = blosc2_schunk_open_udio("mine.b2frame", &io);
  CHECK(schunk != NULL && schunk->nchunks == 3);
  same_chunks(schunk);
  CHECK(blosc2_schunk_delete_chunk(schunk, 1) == 2);
  CHECK(blosc2_schunk_free(schunk) == 0);
  CHECK(opened > 1 && opened == closed && destroyed == 2);
  schunk = blosc2_schunk_open("mine.b2frame");
  CHECK(schunk != NULL && schunk->nchunks == 2);
  blosc2_schunk_free(schunk);
  blosc2_remove_urlpath("mine.b2frame");
  files_anew(&io);
  CHECK(opened == closed && destroyed == 3);
  blosc2_stdio_mmap map = blosc2_get_blosc2_stdio_mmap_defaults();
  map.mode = "w+";
  blosc2_io mapping = {.id = BLOSC2_IO_FILESYSTEM_MMAP, .name = "filesystem_mmap", .params = &map};
  files_anew(&mapping);
}

static void mapped(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  const char *modes[4] = {"w+", "r", "r+", "c"};
  const int64_t before[4] = {0, 3, 3, 4}, after[4] = {3, 3, 4, 4};
  for (int mode = 0; mode < 4; mode++) {
    blosc2_stdio_mmap map = blosc2_get_blosc2_stdio_mmap_defaults();
    map.mode = modes[mode];
    map.initial_mapping_size = 1000;
    blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM_MMAP, .name = "filesystem_mmap", .params = &map};
    blosc2_storage storage = {.contiguous = true, .urlpath = "map.b2frame", .cparams = &cparams, .io = &io};
    blosc2_schunk *schunk = mode == 0 ? blosc2_schunk_new(&storage) : blosc2_schunk_open_udio("map.b2frame", &io);
    CHECK(schunk != NULL && schunk->nchunks == before[mode]);
    if (schunk == NULL) {
      continue;
    }
    if (mode == 0) {
      CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
      CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 2);
    }
    int64_t nchunks = blosc2_schunk_append_buffer(schunk, data, sizeof(data));
    CHECK(mode == 1 ? nchunks < 0 : nchunks == schunk->nchunks);
    same_chunks(schunk);
    CHECK(blosc2_schunk_free(schunk) == 0);
    schunk = blosc2_schunk_open("map.b2frame");
    CHECK(schunk != NULL && schunk->nchunks == after[mode]);
    same_chunks(schunk);
    blosc2_schunk_free(schunk);
  }
  blosc2_remove_urlpath("map.b2frame");
}

static void streams(void) {
  void *stream = blosc2_stdio_open("stream", "wb+", NULL);
  CHECK(stream != NULL && blosc2_stdio_open("no/such/file", "rb", NULL) == NULL);
  CHECK(blosc2_stdio_write("abcdef", 2, 3, 4, stream) == 3 && blosc2_stdio_size(stream) == 10);
  char text[6];
  void *place = text;
  CHECK(blosc2_stdio_read(&place, 1, 6, 4, stream) == 6 && memcmp(text, "abcdef", 6) == 0);
  CHECK(blosc2_stdio_write("a", -1, 1, 0, stream) == 0 && blosc2_stdio_read(&place, INT64_MAX, 2, 0, stream) == 0);
  CHECK(blosc2_stdio_truncate(stream, 5) == 0 && blosc2_stdio_size(stream) == 5);
  CHECK(blosc2_stdio_close(stream) == 0 && blosc2_stdio_destroy(NULL) == 0);
  blosc2_stdio_mmap map = BLOSC2_STDIO_MMAP_DEFAULTS;
  map.mode = "r+";
  map.initial_mapping_size = 100;
  void *mapping = blosc2_stdio_mmap_open("stream", "rb+", &map);
  CHECK(mapping == &map && blosc2_stdio_mmap_size(mapping) == 5);
  CHECK(blosc2_stdio_mmap_write("xyz", 1, 3, 1000000, mapping) == 3 && blosc2_stdio_mmap_size(mapping) == 1000003);
  CHECK(blosc2_stdio_mmap_read(&place, 1, 3, 1000000, mapping) == 3 && memcmp(place, "xyz", 3) == 0);
  CHECK(blosc2_stdio_mmap_read(&place, 1, 4, 1000000, mapping) == 0 && place == NULL);
  CHECK(blosc2_stdio_mmap_truncate(mapping, 7) == 0 && blosc2_stdio_mmap_size(mapping) == 7);
  CHECK(blosc2_stdio_mmap_close(mapping) == 0 && blosc2_stdio_mmap_destroy(mapping) == 0);
  remove("stream");
}

static void small_functions(void) {
  static uint8_t shuffled[sizeof(data)];
  CHECK(blosc2_shuffle(4, sizeof(data), data, shuffled) == (int)sizeof(data));
  CHECK(shuffled[1] == (uint8_t)data[1]);
  CHECK(blosc2_unshuffle(4, sizeof(data), shuffled, back) == (int)sizeof(data));
  CHECK(memcmp(data, back, sizeof(data)) == 0);
  CHECK(blosc2_bitshuffle(4, sizeof(data), data, shuffled) == (int)sizeof(data));
  CHECK(blosc2_bitunshuffle(4, sizeof(data), shuffled, back) == (int)sizeof(data));
  CHECK(memcmp(data, back, sizeof(data)) == 0 && blosc2_shuffle(0, 4, data, shuffled) < 0);
  int64_t shape[3] = {4, 5, 6}, index[3], strides[3] = {30, 6, 1}, item;
  blosc2_unidim_to_multidim(3, shape, 97, index);
  CHECK(index[0] == 3 && index[1] == 1 && index[2] == 1);
  blosc2_multidim_to_unidim(index, 3, strides, &item);
  CHECK(item == 97);
  blosc_timestamp_t before, after;
  blosc_set_timestamp(&before);
  blosc_set_timestamp(&after);
  CHECK(blosc_elapsed_nsecs(before, after) >= 0 && blosc_elapsed_secs(before, after) < 10);
}

int main(void) {
  blosc2_init();
  for (int n = 0; n < N; n++) {
    data[n] = n * 3;
  }
  hooks();
  /* Before codecs and filters are registered, which make sparse reads use the calling thread. */
  own_threads();
  plugins();
  tuners();
  files();
  mapped();
  streams();
  small_functions();
  blosc2_destroy();
  return finish("callbacks");
}
