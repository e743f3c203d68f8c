/* Chunks: through contexts, and through the functions of the process. */
#include "blosc2.h"
#include "blosc2/codecs-registry.h"

#include "check.h"

#define N 50000

static int32_t data[N], back[N];
static uint8_t chunk[sizeof(data) + BLOSC2_MAX_OVERHEAD];

static void contexts(void) {
  const int codecs[] = {BLOSC_BLOSCLZ, BLOSC_LZ4, BLOSC_LZ4HC, BLOSC_ZLIB, BLOSC_ZSTD};
  for (int n = 0; n < 5 * 4; n++) {
    blosc2_cparams cparams = blosc2_get_blosc2_cparams_defaults();
    cparams.compcode = (uint8_t)codecs[n / 4];
    cparams.clevel = (uint8_t)(n % 4 * 3);
    cparams.typesize = 4;
    cparams.nthreads = (int16_t)(1 + n % 2);
    cparams.filters[4] = n % 3 == 0 ? BLOSC_DELTA : 0;
    cparams.filters[5] = n % 2 ? BLOSC_SHUFFLE : BLOSC_BITSHUFFLE;
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    blosc2_dparams dparams = blosc2_get_blosc2_dparams_defaults();
    dparams.nthreads = 2;
    blosc2_context *dctx = blosc2_create_dctx(dparams);
    int cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
    CHECK(cbytes > 0 && (n % 4 == 0 || cbytes < (int)sizeof(data) / 2));
    memset(back, 1, sizeof(back));
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
    CHECK(memcmp(data, back, sizeof(data)) == 0);
    CHECK(blosc2_getitem_ctx(dctx, chunk, cbytes, 12345, 100, back, 400) == 400);
    CHECK(memcmp(data + 12345, back, 400) == 0);
    CHECK(blosc2_getitem_bytes_ctx(dctx, chunk, cbytes, 4 * 40000, 4000, back, 4000) == 4000);
    CHECK(memcmp(data + 40000, back, 4000) == 0);
    CHECK(blosc2_getitem_ctx(dctx, chunk, cbytes, N - 1, 2, back, 8) < 0);
    CHECK(blosc2_getitem_bytes_ctx(dctx, chunk, cbytes, 1, 4, back, 4) < 0);
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back) - 1) < 0);
    CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes - 1, back, sizeof(back)) < 0);
    CHECK(blosc2_decompress_ctx(cctx, chunk, cbytes, back, sizeof(back)) < 0);
    CHECK(blosc2_compress_ctx(dctx, data, sizeof(data), chunk, sizeof(chunk)) < 0);
    /* No space: 0, and nothing is written beyond the buffer. */
    chunk[cbytes - 1] = 77;
    CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, cbytes - 1) == 0);
    CHECK(chunk[cbytes - 1] == 77);
    CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, cbytes) == cbytes);
    blosc2_cparams same;
    CHECK(blosc2_ctx_get_cparams(cctx, &same) == 0 && same.clevel == cparams.clevel && same.typesize == 4);
    blosc2_dparams too;
    CHECK(blosc2_ctx_get_dparams(dctx, &too) == 0 && too.nthreads == 2);
    blosc2_free_ctx(cctx);
    blosc2_free_ctx(dctx);
  }
  blosc2_cparams wrong = BLOSC2_CPARAMS_DEFAULTS;
  wrong.filters[0] = 20;
  CHECK(blosc2_create_cctx(wrong) == NULL);
  wrong.filters[0] = 0;
  wrong.clevel = 12;
  blosc2_context *cctx = blosc2_create_cctx(wrong);
  CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) == BLOSC2_ERROR_CODEC_PARAM);
  blosc2_free_ctx(cctx);
}

static void masks(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.blocksize = 40000;
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  int cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
  bool mask[5] = {true, false, true, true, false};
  CHECK(blosc2_set_maskout(dctx, mask, 5) == 0);
  memset(back, 1, sizeof(back));
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
  for (int n = 0; n < 5; n++) {
    CHECK((memcmp(back + n * 10000, data + n * 10000, 40000) == 0) == !mask[n]);
  }
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
  CHECK(memcmp(back, data, sizeof(data)) == 0);
  blosc2_free_ctx(cctx);
  blosc2_free_ctx(dctx);
}

static void special(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  float value = 2.5f, items[1000];
  CHECK(blosc2_chunk_zeros(cparams, 4000, chunk, sizeof(chunk)) == 32);
  CHECK(blosc2_decompress(chunk, 32, items, 4000) == 4000 && items[0] == 0 && items[999] == 0);
  CHECK(blosc2_chunk_nans(cparams, 4000, chunk, sizeof(chunk)) == 32);
  CHECK(blosc2_decompress(chunk, 32, items, 4000) == 4000 && items[0] != items[0] && items[999] != items[999]);
  CHECK(blosc2_chunk_repeatval(cparams, 4000, chunk, sizeof(chunk), &value) == 36);
  CHECK(blosc2_decompress(chunk, 36, items, 4000) == 4000 && items[0] == value && items[999] == value);
  CHECK(blosc2_chunk_uninit(cparams, 4000, chunk, sizeof(chunk)) == 32);
  CHECK(blosc2_decompress(chunk, 32, items, 4000) == 4000);
  CHECK(blosc2_chunk_zeros(cparams, 4001, chunk, sizeof(chunk)) < 0);
  CHECK(blosc2_chunk_zeros(cparams, 4000, chunk, 31) < 0);
}

static void blocks_of_any_size(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 1;
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  const void *sources[3] = {"one", "twenty twenty twenty", "three hundred"};
  const int32_t sizes[3] = {3, 20, 13};
  int cbytes = blosc2_vlcompress_ctx(cctx, sources, sizes, 3, chunk, sizeof(chunk));
  CHECK(cbytes > 0);
  int32_t nblocks = 0;
  CHECK(blosc2_vlchunk_get_nblocks(chunk, cbytes, &nblocks) == 0 && nblocks == 3);
  void *blocks[3];
  int32_t lengths[3];
  CHECK(blosc2_vldecompress_ctx(dctx, chunk, cbytes, blocks, lengths, 2) < 0);
  CHECK(blosc2_vldecompress_ctx(dctx, chunk, cbytes, blocks, lengths, 3) == 3);
  for (int n = 0; n < 3; n++) {
    CHECK(lengths[n] == sizes[n] && memcmp(blocks[n], sources[n], (size_t)sizes[n]) == 0);
    free(blocks[n]);
  }
  uint8_t *block;
  int32_t size;
  CHECK(blosc2_vldecompress_block_ctx(dctx, chunk, cbytes, 1, &block, &size) == 20 && size == 20);
  CHECK(memcmp(block, sources[1], 20) == 0);
  free(block);
  CHECK(blosc2_vldecompress_block_ctx(dctx, chunk, cbytes, 3, &block, &size) < 0);
  CHECK(blosc2_getitem_ctx(dctx, chunk, cbytes, 0, 1, back, 1) < 0);
  blosc2_free_ctx(cctx);
  blosc2_free_ctx(dctx);
}

static void process(void) {
  CHECK(strcmp(blosc2_get_version_string(), BLOSC2_VERSION_STRING) == 0);
  CHECK(strcmp(blosc2_list_compressors(), "blosclz,lz4,lz4hc,zlib,zstd") == 0);
  const char *name;
  CHECK(blosc2_compcode_to_compname(BLOSC_ZSTD, &name) == BLOSC_ZSTD && strcmp(name, "zstd") == 0);
  CHECK(blosc2_compcode_to_compname(99, &name) == -1 && name == NULL);
  CHECK(blosc2_compname_to_compcode("lz4hc") == BLOSC_LZ4HC && blosc2_compname_to_compcode("none") == -1);
  char *library, *version;
  CHECK(blosc2_get_complib_info("lz4hc", &library, &version) == BLOSC_LZ4_LIB && strcmp(library, "LZ4") == 0);
  free(library);
  free(version);
  library = version = NULL;
  CHECK(blosc2_get_complib_info("zfp_prec", &library, &version) == BLOSC_CODEC_ZFP_FIXED_PRECISION &&
        strcmp(library, "zfp_prec") == 0 && strcmp(version, "unknown") == 0);
  free(library);
  free(version);
  CHECK(blosc2_get_complib_info("ndlz", &library, &version) == -1);
  CHECK(blosc2_get_complib_info("none", &library, &version) == -1);
  CHECK(blosc1_set_compressor("none") == -1 && blosc1_set_compressor("lz4") == BLOSC_LZ4);
  CHECK(strcmp(blosc1_get_compressor(), "lz4") == 0);
  CHECK(blosc2_set_nthreads(2) == 1 && blosc2_get_nthreads() == 2 && blosc2_set_nthreads(0) < 0);
  blosc1_set_blocksize(4096);
  CHECK(blosc1_get_blocksize() == 4096);
  blosc1_set_splitmode(BLOSC_NEVER_SPLIT);
  blosc2_set_delta(1);
  int cbytes = blosc1_compress(5, BLOSC_SHUFFLE, 4, sizeof(data), data, chunk, sizeof(chunk));
  CHECK(cbytes > 0);
  int32_t nbytes, stored, blocksize;
  CHECK(blosc2_cbuffer_sizes(chunk, &nbytes, &stored, &blocksize) == 0);
  CHECK(nbytes == (int)sizeof(data) && stored == cbytes && blocksize == 4096);
  size_t nbytes1, stored1, blocksize1;
  blosc1_cbuffer_sizes(chunk, &nbytes1, &stored1, &blocksize1);
  CHECK(nbytes1 == sizeof(data) && stored1 == (size_t)cbytes && blocksize1 == 4096);
  CHECK(blosc1_cbuffer_validate(chunk, (size_t)cbytes, &nbytes1) == 0 && nbytes1 == sizeof(data));
  CHECK(blosc1_cbuffer_validate(chunk, (size_t)cbytes + 1, &nbytes1) < 0 && nbytes1 == 0);
  size_t typesize;
  int flags, format, formatlz;
  blosc1_cbuffer_metainfo(chunk, &typesize, &flags);
  CHECK(typesize == 4 && (flags & BLOSC_DOSHUFFLE));
  blosc2_cbuffer_versions(chunk, &format, &formatlz);
  CHECK(format == BLOSC2_VERSION_FORMAT_STABLE && formatlz == 1);
  CHECK(strcmp(blosc2_cbuffer_complib(chunk), "LZ4") == 0);
  CHECK(blosc1_decompress(chunk, back, sizeof(back)) == (int)sizeof(data));
  CHECK(memcmp(back, data, sizeof(data)) == 0);
  CHECK(blosc1_getitem(chunk, 777, 10, back) == 40 && memcmp(back, data + 777, 40) == 0);
  CHECK(blosc2_getitem(chunk, cbytes, 777, 10, back, 40) == 40 && memcmp(back, data + 777, 40) == 0);
  CHECK(blosc2_getitem(chunk, cbytes, 777, 10, back, 39) < 0);
  cbytes = blosc2_compress(9, BLOSC_BITSHUFFLE, 4, data, sizeof(data), chunk, sizeof(chunk));
  CHECK(cbytes > 0 && blosc2_decompress(chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
  CHECK(blosc2_compress(10, 0, 4, data, sizeof(data), chunk, sizeof(chunk)) == BLOSC2_ERROR_CODEC_PARAM);
  /* Ids of other filters are not shuffles: none is applied, as in C-Blosc2. */
  cbytes = blosc2_compress(5, BLOSC_TRUNC_PREC, 4, data, sizeof(data), chunk, sizeof(chunk));
  CHECK(cbytes > 0 && blosc2_decompress(chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
  CHECK(memcmp(back, data, sizeof(data)) == 0);
  CHECK(blosc1_compress(5, 35, 4, sizeof(data), data, chunk, sizeof(chunk)) > 0);
  setenv("BLOSC_COMPRESSOR", "zstd", 1);
  setenv("BLOSC_BLOSC1_COMPAT", "1", 1);
  blosc2_set_delta(0);
  cbytes = blosc2_compress(5, BLOSC_SHUFFLE, 4, data, sizeof(data), chunk, sizeof(chunk));
  blosc2_cbuffer_versions(chunk, &format, &formatlz);
  CHECK(cbytes > 0 && format == BLOSC1_VERSION_FORMAT && strcmp(blosc2_cbuffer_complib(chunk), "Zstd") == 0);
  CHECK(blosc2_decompress(chunk, cbytes, back, sizeof(back)) == (int)sizeof(data));
  CHECK(memcmp(back, data, sizeof(data)) == 0);
  unsetenv("BLOSC_COMPRESSOR");
  unsetenv("BLOSC_BLOSC1_COMPAT");
  CHECK(blosc2_free_resources() == 0);
  CHECK(strstr(blosc2_error_string(BLOSC2_ERROR_LOCK), "lock") != NULL);
  CHECK(strcmp(print_error(12345), "Unknown error") == 0);
}

/* Chunks of measurements: a record for each stream. */
static void instrumented(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.compcode = BLOSC_LZ4;
  cparams.blocksize = 4096;
  cparams.splitmode = BLOSC_ALWAYS_SPLIT;
  cparams.instr_codec = true;
  int32_t items[2500];
  for (int n = 0; n < 2500; n++) {
    items[n] = n;
  }
  uint8_t chunk[400];
  blosc2_instr records[9];
  blosc2_context *cctx = blosc2_create_cctx(cparams), *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  CHECK(blosc2_compress_ctx(cctx, items, sizeof(items), chunk, 100) == 0);
  int cbytes = blosc2_compress_ctx(cctx, items, sizeof(items), chunk, sizeof(chunk));
  CHECK(cbytes == 32 + 3 * 4 + 9 * 20 && (chunk[BLOSC2_CHUNK_BLOSC2_FLAGS] & BLOSC2_INSTR_CODEC) != 0);
  CHECK(blosc2_decompress_ctx(dctx, chunk, cbytes, records, sizeof(records)) == (int)sizeof(records));
  for (int n = 0; n < 9; n++) {
    CHECK(records[n].cspeed > 0 && records[n].filter_speed > 0 && records[n].cratio > 0);
    /* In the whole blocks, the upper bytes of all items are zero. */
    CHECK(records[n].flags[0] == (n < 8 && n % 4 > 1));
    CHECK(records[n].flags[0] == 0 || records[n].cratio == 256);
  }
  /* The lowest byte of each item repeats after 256 items, the next one seldom changes. */
  CHECK(records[0].cratio > 2 && records[1].cratio > 20);
  const void *sources[1] = {items};
  const int32_t sizes[1] = {100};
  CHECK(blosc2_vlcompress_ctx(cctx, sources, sizes, 1, chunk, sizeof(chunk)) < 0);
  /* A chunk without compression has nothing to measure. */
  CHECK(blosc2_compress_ctx(cctx, items, 8, chunk, sizeof(chunk)) == 40);
  CHECK(blosc2_decompress_ctx(dctx, chunk, 40, records, sizeof(records)) == 8 && memcmp(records, items, 8) == 0);
  blosc2_free_ctx(cctx);
  blosc2_free_ctx(dctx);
}

int main(void) {
  blosc2_init();
  for (int n = 0; n < N; n++) {
    data[n] = n / 7 * 3;
  }
  contexts();
  masks();
  special();
  blocks_of_any_size();
  process();
  instrumented();
  blosc2_destroy();
  return finish("chunks");
}
