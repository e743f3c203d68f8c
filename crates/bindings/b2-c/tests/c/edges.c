/* Edge cases: unusual arguments, and the values that C-Blosc2 returns for them. C-Blosc2's library passes, too. */
#include "b2nd.h"

#include "check.h"

static uint8_t data[70000], room[70000 + BLOSC2_MAX_OVERHEAD];

static bool all_are(const uint8_t *bytes, size_t len, uint8_t value) {
  for (size_t n = 0; n < len; n++) {
    if (bytes[n] != value) {
      return false;
    }
  }
  return true;
}

static blosc2_cparams with_typesize(int32_t typesize) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = typesize;
  return cparams;
}

/* The parameters of an array of one dimension in memory. */
static b2nd_context_t *line(int64_t len, int32_t chunk, int32_t typesize, const char *dtype, int8_t format) {
  static blosc2_cparams cparams;
  cparams = with_typesize(typesize);
  blosc2_storage storage = {.contiguous = true, .cparams = &cparams};
  const int32_t block = 2;
  return b2nd_create_ctx(&storage, 1, &len, &chunk, &block, dtype, format, NULL, 0);
}

/* The rest of a buffer after the items becomes zero, up to the size given by the caller. */
static void gaps(void) {
  blosc2_cparams cparams = with_typesize(1);
  blosc2_storage storage = {.cparams = &cparams};
  int64_t shape[2] = {3, 4}, start[2] = {0, 2}, stop[2] = {2, 4}, wide[2] = {2, 4};
  int32_t chunk[2] = {2, 4}, block[2] = {1, 1};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunk, block, "|u1", 0, NULL, 0);
  uint8_t items[12], out[20];
  for (int n = 0; n < 12; n++) {
    items[n] = (uint8_t)(n + 1);
  }
  b2nd_array_t *array;
  CHECK(b2nd_from_cbuffer(ctx, &array, items, 12) == 0);
  memset(out, 0x33, sizeof(out));
  CHECK(b2nd_get_slice_cbuffer(array, start, stop, out, wide, 10) == 0);
  CHECK(memcmp(out, (uint8_t[10]){3, 4, 0, 0, 7, 8}, 10) == 0 && out[10] == 0x33);
  memset(out, 0x33, sizeof(out));
  CHECK(b2nd_get_slice_cbuffer(array, start, start, out, wide, 9) == 0);
  CHECK(all_are(out, 9, 0) && out[9] == 0x33);
  int64_t exact[2] = {2, 2};
  memset(out, 0x33, sizeof(out));
  CHECK(b2nd_get_slice_cbuffer(array, start, stop, out, exact, 4) == 0);
  CHECK(memcmp(out, (uint8_t[4]){3, 4, 7, 8}, 4) == 0 && out[4] == 0x33);
  memset(out, 0x33, sizeof(out));
  CHECK(b2nd_to_cbuffer(array, out, 15) == 0);
  CHECK(memcmp(out, items, 12) == 0 && all_are(out + 12, 3, 0) && out[15] == 0x33);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

/* Appending to a missing file creates it. */
static void appending(void) {
  const char *path = "appended.b2nd";
  remove(path);
  b2nd_context_t *ctx = line(5, 4, 1, "|u1", 0);
  b2nd_array_t *array, *other;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, 5) == 0);
  CHECK(b2nd_save_append(array, path) == 0);
  int64_t offset = b2nd_save_append(array, path);
  CHECK(offset > 0);
  uint8_t out[5];
  CHECK(b2nd_open_offset(path, &other, offset) == 0 && b2nd_to_cbuffer(other, out, 5) == 0 && !memcmp(out, data, 5));
  b2nd_free(other);
  CHECK(b2nd_open(path, &other) == 0 && b2nd_to_cbuffer(other, out, 5) == 0 && memcmp(out, data, 5) == 0);
  b2nd_free(other);
  CHECK(blosc2_schunk_append_file(array->sc, "no such folder/file") < 0);
  remove(path);
  CHECK(blosc2_schunk_append_file(array->sc, path) == 0);
  blosc2_schunk *schunk = blosc2_schunk_open(path);
  CHECK(schunk != NULL && schunk->nbytes == array->sc->nbytes);
  blosc2_schunk_free(schunk);
  remove(path);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

/* Special chunks without items. */
static void empty_chunks(void) {
  blosc2_cparams cparams = with_typesize(4);
  blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  for (int kind = 0; kind < 4; kind++) {
    int cbytes = kind == 0   ? blosc2_chunk_zeros(cparams, 0, room, sizeof(room))
                 : kind == 1 ? blosc2_chunk_uninit(cparams, 0, room, sizeof(room))
                 : kind == 2 ? blosc2_chunk_nans(cparams, 0, room, sizeof(room))
                             : blosc2_chunk_repeatval(cparams, 0, room, sizeof(room), data);
    CHECK(cbytes == (kind == 3 ? 36 : 32));
    const uint8_t codes[4] = {1, 4, 2, 3};
    CHECK(room[BLOSC2_CHUNK_BLOSC2_FLAGS] == codes[kind] << 4 && (kind < 3 || memcmp(room + 32, data, 4) == 0));
    int32_t nbytes, stored, blocksize;
    CHECK(blosc2_cbuffer_sizes(room, &nbytes, &stored, &blocksize) == 0);
    CHECK(nbytes == 0 && stored == cbytes && blocksize == 1);
    /* C-Blosc2 does not read its own empty chunk of a repeated item. */
    if (kind < 3) {
      CHECK(blosc2_decompress_ctx(dctx, room, cbytes, data, 0) == 0);
    }
  }
  blosc2_schunk *schunk = blosc2_schunk_new(&(blosc2_storage){.contiguous = true, .cparams = &cparams});
  CHECK(blosc2_chunk_uninit(cparams, 0, room, sizeof(room)) == 32);
  CHECK(blosc2_schunk_append_chunk(schunk, room, true) == 1);
  CHECK(schunk->nchunks == 1 && schunk->nbytes == 0);
  blosc2_schunk_free(schunk);
  blosc2_free_ctx(dctx);
}

/* Whether an array has a dtype. */
static bool shows_dtype(b2nd_array_t *array, const char *dtype, int8_t format) {
  return strcmp(array->dtype, dtype) == 0 && array->dtype_format == format;
}

/* Whether it is also in its metalayer. */
static bool has_dtype(b2nd_array_t *array, const char *dtype, int8_t format) {
  int32_t len;
  uint8_t *meta;
  bool stored = blosc2_meta_get(array->sc, "b2nd", &meta, &len) >= 0;
  size_t size = strlen(dtype);
  stored = stored && memcmp(meta + len - size, dtype, size) == 0 && meta[len - size - 6] == format;
  free(meta);
  return stored && shows_dtype(array, dtype, format);
}

/* Without a dtype, items are bytes. */
static void default_dtypes(void) {
  const int32_t typesizes[4] = {1, 4, 8, 300};
  const char *dtypes[4] = {"|S1", "|S4", "|S8", "|S300"};
  for (int n = 0; n < 4; n++) {
    for (int8_t format = 0; format < 2; format++) {
      b2nd_context_t *ctx = line(5, 4, typesizes[n], NULL, format);
      b2nd_array_t *array;
      CHECK(b2nd_zeros(ctx, &array) == 0 && has_dtype(array, dtypes[n], format));
      b2nd_free(array);
      b2nd_free_ctx(ctx);
    }
  }
  b2nd_context_t *ctx = line(5, 4, 4, NULL, -1);
  b2nd_array_t *array;
  CHECK(b2nd_zeros(ctx, &array) == BLOSC2_ERROR_FAILURE);
  b2nd_free_ctx(ctx);
}

/* Copies have the requested dtype. If the chunks are the same, C-Blosc2 stores that of the source. */
static void copied_dtypes(void) {
  b2nd_context_t *ctx = line(5, 4, 4, "<f4", 1);
  b2nd_array_t *array, *other;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, 20) == 0);
  for (int32_t chunk = 3; chunk < 5; chunk++) {
    b2nd_context_t *wanted = line(5, chunk, 4, "<i4", 0), *none = line(5, chunk, 4, NULL, 1);
    uint8_t out[20];
    CHECK(b2nd_copy(wanted, array, &other) == 0 && shows_dtype(other, "<i4", 0));
    CHECK(chunk == 4 || has_dtype(other, "<i4", 0));
    CHECK(b2nd_to_cbuffer(other, out, 20) == 0 && memcmp(out, data, 20) == 0);
    b2nd_free(other);
    CHECK(b2nd_copy(none, array, &other) == 0 && shows_dtype(other, "|S4", 1));
    b2nd_free(other);
    CHECK(b2nd_concatenate(wanted, array, array, 0, true, &other) == 0 && shows_dtype(other, "<i4", 0));
    b2nd_free(other);
    b2nd_free_ctx(wanted);
    b2nd_free_ctx(none);
  }
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

static int compressed(blosc2_cparams cparams, int32_t size) {
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  int result = blosc2_compress_ctx(cctx, data, size, room, sizeof(room));
  blosc2_free_ctx(cctx);
  return result;
}

static int32_t blocksize_of(const uint8_t *chunk) {
  int32_t nbytes, cbytes, blocksize;
  return blosc2_cbuffer_sizes(chunk, &nbytes, &cbytes, &blocksize) == 0 ? blocksize : -1;
}

/* A context returns the block size that it used. */
static void used_blocksizes(void) {
  blosc2_cparams cparams = with_typesize(8), reported;
  for (int32_t asked = 0; asked < 1001; asked += 1000) {
    cparams.blocksize = asked;
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    CHECK(blosc2_ctx_get_cparams(cctx, &reported) == 0 && reported.blocksize == asked);
    const int32_t sizes[3] = {60000, 8000, 104};
    for (int n = 0; n < 3; n++) {
      CHECK(blosc2_compress_ctx(cctx, data, sizes[n], room, sizeof(room)) > 0);
      CHECK(blosc2_ctx_get_cparams(cctx, &reported) == 0 && reported.blocksize == blocksize_of(room));
      CHECK(reported.blocksize > 0 && reported.blocksize <= sizes[n]);
    }
    blosc2_free_ctx(cctx);
  }
}

/* Codecs without dictionaries refuse to use one. */
static void dictionaries(void) {
  const uint8_t codecs[5] = {BLOSC_BLOSCLZ, BLOSC_LZ4, BLOSC_LZ4HC, BLOSC_ZLIB, BLOSC_ZSTD};
  for (int n = 0; n < 5; n++) {
    blosc2_cparams cparams = with_typesize(4);
    cparams.compcode = codecs[n];
    cparams.use_dict = 1;
    bool known = codecs[n] != BLOSC_BLOSCLZ && codecs[n] != BLOSC_ZLIB;
    int result = compressed(cparams, 60000);
    CHECK(known ? result > 0 : result == BLOSC2_ERROR_CODEC_PARAM);
    CHECK(blosc2_chunk_zeros(cparams, 4000, room, sizeof(room)) == 32);
    remove("dictionary.b2frame");
    blosc2_storage storage = {.contiguous = true, .urlpath = "dictionary.b2frame", .cparams = &cparams};
    blosc2_schunk *schunk = blosc2_schunk_new(&storage);
    CHECK(schunk != NULL);
    CHECK(blosc2_schunk_append_buffer(schunk, data, 60000) == (known ? 1 : BLOSC2_ERROR_CODEC_PARAM));
    CHECK(blosc2_vlmeta_add(schunk, "about", data, 3, NULL) >= 0);
    blosc2_schunk_free(schunk);
    schunk = blosc2_schunk_open("dictionary.b2frame");
    CHECK(schunk != NULL && schunk->nchunks == known);
    blosc2_schunk_free(schunk);
    remove("dictionary.b2frame");
  }
}

/* Names of codecs that do not exist are errors. */
static void unknown_codecs(void) {
  const char *names[4] = {"snappy", "nope", "", "LZ4"};
  for (int n = 0; n < 4; n++) {
    setenv("BLOSC_COMPRESSOR", names[n], 1);
    CHECK(blosc2_compress(5, 1, 4, data, 8000, room, sizeof(room)) == BLOSC2_ERROR_CODEC_SUPPORT);
    CHECK(blosc1_compress(5, 1, 4, 8000, data, room, sizeof(room)) == BLOSC2_ERROR_CODEC_SUPPORT);
    CHECK(blosc1_get_compressor() == NULL);
    CHECK(compressed(with_typesize(4), 8000) == BLOSC2_ERROR_CODEC_SUPPORT);
    unsetenv("BLOSC_COMPRESSOR");
    CHECK(compressed(with_typesize(4), 8000) > 0);
    CHECK(blosc1_set_compressor("blosclz") == BLOSC_BLOSCLZ);
    CHECK(blosc2_compress(5, 1, 4, data, 8000, room, sizeof(room)) > 0);
  }
  setenv("BLOSC_COMPRESSOR", "lz4", 1);
  CHECK(compressed(with_typesize(4), 8000) > 0 && strcmp(blosc2_cbuffer_complib(room), "LZ4") == 0);
  unsetenv("BLOSC_COMPRESSOR");
}

/* Blocks that are larger than the format allows are made smaller. */
static void large_blocks(void) {
  const int32_t sizes[3] = {BLOSC2_MAXBLOCKSIZE, BLOSC2_MAXBLOCKSIZE + 1, INT32_MAX};
  for (int n = 0; n < 3; n++) {
    blosc2_cparams cparams = with_typesize(4);
    cparams.blocksize = sizes[n];
    CHECK(compressed(cparams, 8000) > 0 && blocksize_of(room) == 8000);
    blosc2_schunk *schunk = blosc2_schunk_new(&(blosc2_storage){.contiguous = true, .cparams = &cparams});
    CHECK(schunk != NULL && blosc2_schunk_append_buffer(schunk, data, 8000) == 1);
    blosc2_schunk_free(schunk);
  }
}

/* The variable takes effect with the first compression. */
static void threads_from_outside(void) {
  setenv("BLOSC_NTHREADS", "2", 1);
  blosc2_init();
  CHECK(blosc2_get_nthreads() == 1);
  CHECK(blosc2_compress(5, 1, 4, data, 8000, room, sizeof(room)) > 0 && blosc2_get_nthreads() == 2);
  unsetenv("BLOSC_NTHREADS");
  CHECK(blosc2_set_nthreads(1) == 2);
}

static int fails(blosc2_prefilter_params *params) {
  (void)params;
  return 1;
}

static int encodes_nothing(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                           blosc2_cparams *cparams, const void *chunk) {
  (void)input, (void)input_len, (void)output, (void)output_len, (void)meta, (void)cparams, (void)chunk;
  return -5;
}

static int decodes_nothing(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len, uint8_t meta,
                           blosc2_dparams *dparams, const void *chunk) {
  (void)input, (void)input_len, (void)output, (void)output_len, (void)meta, (void)dparams, (void)chunk;
  return -5;
}

static int forward(const uint8_t *input, uint8_t *output, int32_t len, uint8_t meta, blosc2_cparams *cparams, uint8_t id) {
  (void)meta, (void)cparams, (void)id;
  memcpy(output, input, (size_t)len);
  return 0;
}

static int fails_backward(const uint8_t *input, uint8_t *output, int32_t len, uint8_t meta, blosc2_dparams *dparams, uint8_t id) {
  (void)input, (void)output, (void)len, (void)meta, (void)dparams, (void)id;
  return -1;
}

/* Codes of errors. */
static void codes(void) {
  uint8_t out[8000];
  blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  for (uint8_t level = 0; level < 6; level += 5) {
    blosc2_cparams cparams = with_typesize(4);
    cparams.clevel = level;
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    CHECK(blosc2_compress_ctx(cctx, data, 8000, room, -1) == BLOSC2_ERROR_MAX_BUFSIZE_EXCEEDED);
    CHECK(blosc2_compress(5, 1, 4, data, 8000, room, -1) == BLOSC2_ERROR_MAX_BUFSIZE_EXCEEDED);
    int n = blosc2_compress_ctx(cctx, data, 8000, room, sizeof(room));
    CHECK(n > 40);
    CHECK(blosc2_decompress_ctx(dctx, room, n, out, -1) == BLOSC2_ERROR_WRITE_BUFFER);
    CHECK(blosc2_decompress_ctx(dctx, room, -1, out, 8000) == BLOSC2_ERROR_READ_BUFFER);
    CHECK(blosc2_decompress(room, n, out, -1) == BLOSC2_ERROR_WRITE_BUFFER);
    CHECK(blosc2_decompress(room, -1, out, 8000) == BLOSC2_ERROR_READ_BUFFER);
    CHECK(blosc2_getitem_ctx(dctx, room, n, 0, 10, out, -1) == BLOSC2_ERROR_WRITE_BUFFER);
    CHECK(blosc2_getitem_ctx(dctx, room, -1, 0, 10, out, 40) == BLOSC2_ERROR_READ_BUFFER);
    const int sizes[4] = {n - 1, 32, 31, 15};
    for (int short_of = 0; short_of < 4; short_of++) {
      int code = short_of < 2 ? BLOSC2_ERROR_INVALID_HEADER : BLOSC2_ERROR_READ_BUFFER;
      CHECK(blosc2_decompress_ctx(dctx, room, sizes[short_of], out, 8000) == code);
      CHECK(blosc2_decompress(room, sizes[short_of], out, 8000) == code);
      CHECK(blosc2_getitem_ctx(dctx, room, sizes[short_of], 0, 10, out, 40) == code);
    }
    CHECK(blosc2_getitem_bytes_ctx(dctx, room, n, 1, 0, out, 8000) == BLOSC2_ERROR_INVALID_PARAM);
    CHECK(blosc2_getitem_bytes_ctx(dctx, room, n, 4, 0, out, 8000) == 0);
    blosc2_free_ctx(cctx);
  }
  blosc2_cparams cparams = with_typesize(4);
  blosc2_schunk *schunk = blosc2_schunk_new(&(blosc2_storage){.contiguous = true, .cparams = &cparams});
  CHECK(blosc2_schunk_append_buffer(schunk, data, -4) == BLOSC2_ERROR_MAX_BUFSIZE_EXCEEDED);
  CHECK(blosc2_schunk_append_buffer(schunk, data, 8000) == 1);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, out, -1) == BLOSC2_ERROR_WRITE_BUFFER);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, out, 7999) == BLOSC2_ERROR_WRITE_BUFFER);
  CHECK(blosc2_schunk_get_slice_buffer(schunk, 2000, 2001, out) == BLOSC2_ERROR_FAILURE);
  CHECK(blosc2_schunk_get_slice_buffer(schunk, -1, 2, out) == BLOSC2_ERROR_FAILURE);
  CHECK(blosc2_schunk_set_slice_buffer(schunk, 2000, 2001, data) == BLOSC2_ERROR_FAILURE);
  blosc2_schunk *list = blosc2_schunk_copy(schunk, &(blosc2_storage){.contiguous = false, .cparams = &cparams});
  CHECK(blosc2_schunk_decompress_chunk(list, 0, out, 7999) == BLOSC2_ERROR_INVALID_PARAM);
  blosc2_schunk_free(list);
  uint8_t *content = data;
  int32_t len = 5;
  CHECK(blosc2_vlmeta_add(schunk, "empty", data, 0, NULL) >= 0);
  CHECK(blosc2_vlmeta_get(schunk, "empty", &content, &len) >= 0 && content == NULL && len == 0);
  blosc2_schunk_free(schunk);
  CHECK(blosc2_remove_dir("no such folder") == BLOSC2_ERROR_NOT_FOUND);
  int64_t shape = 5;
  int32_t chunk = 4, block = 2;
  CHECK(b2nd_serialize_meta(1, &shape, &chunk, &block, "<f8", -1, &content) == BLOSC2_ERROR_FAILURE);

  /* Return values of the program's own functions. */
  blosc2_prefilter_params preparams = {0};
  cparams.prefilter = fails;
  cparams.preparams = &preparams;
  CHECK(compressed(cparams, 60000) == BLOSC2_ERROR_FILTER_PIPELINE);
  cparams = with_typesize(4);
  blosc2_codec codec = {.compcode = 210, .compname = "none", .complib = 1, .version = 1,
                        .encoder = encodes_nothing, .decoder = decodes_nothing};
  CHECK(blosc2_register_codec(&codec) == 0);
  cparams.compcode = 210;
  CHECK(compressed(cparams, 60000) == BLOSC2_ERROR_DATA);
  blosc2_filter filter = {.id = 210, .name = "none", .version = 1, .forward = forward, .backward = fails_backward};
  CHECK(blosc2_register_filter(&filter) == 0);
  cparams = with_typesize(4);
  cparams.filters[5] = 210;
  int n = compressed(cparams, 8000);
  CHECK(n > 0 && blosc2_decompress_ctx(dctx, room, n, out, 8000) == BLOSC2_ERROR_FAILURE);
  blosc2_free_ctx(dctx);
}

int main(void) {
  blosc2_init();
  for (size_t n = 0; n < sizeof(data); n++) {
    data[n] = (uint8_t)(n / 9 * 5 + n % 4);
  }
  gaps();
  appending();
  empty_chunks();
  default_dtypes();
  copied_dtypes();
  used_blocksizes();
  dictionaries();
  unknown_codecs();
  large_blocks();
  threads_from_outside();
  codes();
  blosc2_destroy();
  return finish("edges");
}
