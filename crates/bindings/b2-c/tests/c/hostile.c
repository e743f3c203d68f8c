/* Damaged chunks and frames through all functions that read them. Nothing may crash; damage gives an error code. The argument is how
 * many to try. */
#include "b2nd.h"

#include "check.h"

static uint64_t state = 88172645463325252u;

/* A number below `n`. */
static uint32_t below(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 20) % n);
}

/* Changes some bytes: more often those at the start, with values that are special more often. */
static void damage(uint8_t *bytes, uint32_t len, uint32_t head) {
  const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0xd3, 0xce, 0x90};
  for (uint32_t n = 0; n < 1 + below(4); n++) {
    uint32_t at = below(below(3) ? (len < head ? len : head) : len);
    if (below(4) == 0) {
      at = len - 1 - below(len < 60 ? len : 60);
    }
    bytes[at] = below(2) ? values[below(8)] : (uint8_t)below(256);
  }
}

static int64_t refused, read_all;

static void count(int64_t result) {
  if (result < 0) {
    refused++;
  } else {
    read_all++;
  }
  passed++;
}

static void chunks(int times) {
  static int32_t data[5000], back[5000];
  uint8_t chunk[sizeof(data) + 32];
  for (int n = 0; n < 5000; n++) {
    data[n] = n * 3;
  }
  blosc2_context *dctx = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  for (int n = 0; n < times; n++) {
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.compcode = (uint8_t[]){0, 1, 2, 4, 5}[below(5)];
    cparams.typesize = 4;
    cparams.clevel = (uint8_t)below(10);
    cparams.use_dict = cparams.compcode == 5 && below(4) == 0;
    cparams.filters[4] = (uint8_t)(below(3) == 0 ? BLOSC_DELTA : 0);
    cparams.filters[5] = (uint8_t)below(3);
    cparams.blocksize = below(2) ? 0 : 1024;
    blosc2_context *cctx = blosc2_create_cctx(cparams);
    int cbytes;
    if (below(8) == 0) {
      const void *sources[3] = {data, data + 10, data + 1000};
      const int32_t sizes[3] = {40, 3000, 7};
      cparams.filters[4] = 0;
      blosc2_context *vl = blosc2_create_cctx(cparams);
      cbytes = blosc2_vlcompress_ctx(vl, sources, sizes, 3, chunk, sizeof(chunk));
      blosc2_free_ctx(vl);
    } else {
      cbytes = blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk));
    }
    blosc2_free_ctx(cctx);
    CHECK(cbytes > 0);
    /* In separate memory, so that valgrind detects reads beyond it. */
    int32_t len = below(4) ? cbytes : (int32_t)below((uint32_t)cbytes + 1);
    uint8_t *bytes = malloc((size_t)len + 1);
    memcpy(bytes, chunk, (size_t)len);
    if (len > 0) {
      damage(bytes, (uint32_t)len, 120);
    }
    count(blosc2_decompress_ctx(dctx, bytes, len, back, sizeof(back)));
    count(blosc2_decompress(bytes, len, back, sizeof(back)));
    count(blosc2_getitem_ctx(dctx, bytes, len, (int)below(5000), (int)below(300), back, 1200));
    count(blosc2_getitem_bytes_ctx(dctx, bytes, len, (int)below(20000), (int)below(300), back, 1200));
    count(blosc2_getitem(bytes, len, -1 + (int)below(6000), (int)below(300), back, 1200));
    void *blocks[3];
    int32_t sizes[3], nblocks;
    int got = blosc2_vldecompress_ctx(dctx, bytes, len, blocks, sizes, 3);
    count(got);
    for (int block = 0; block < got; block++) {
      free(blocks[block]);
    }
    count(blosc2_vlchunk_get_nblocks(bytes, len, &nblocks));
    bool mask[20] = {true, false, true};
    blosc2_set_maskout(dctx, mask, 20);
    count(blosc2_decompress_ctx(dctx, bytes, len, back, sizeof(back)));
    size_t nbytes;
    count(blosc1_cbuffer_validate(bytes, (size_t)len, &nbytes));
    free(bytes);
  }
  blosc2_free_ctx(dctx);
}

static void frames(int times) {
  static int16_t data[60 * 50];
  static uint8_t back[sizeof(data)];
  for (int n = 0; n < 3000; n++) {
    data[n] = (int16_t)(n % 700);
  }
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 2;
  blosc2_storage storage = {.contiguous = true, .cparams = &cparams};
  const int64_t shape[2] = {60, 50};
  const int32_t chunk[2] = {25, 20}, block[2] = {8, 20};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunk, block, "<i2", 0, NULL, 0);
  b2nd_array_t *array;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data)) == 0);
  CHECK(blosc2_vlmeta_add(array->sc, "about", (uint8_t *)"something", 9, NULL) == 0);
  uint8_t *frame;
  int64_t len;
  bool needs_free;
  CHECK(b2nd_to_cframe(array, &frame, &len, &needs_free) == 0);
  b2nd_free(array);
  for (int n = 0; n < times; n++) {
    int64_t size = below(4) ? len : (int64_t)below((uint32_t)len + 1);
    uint8_t *bytes = malloc((size_t)size + 1);
    memcpy(bytes, frame, (size_t)size);
    if (size > 0) {
      damage(bytes, (uint32_t)size, 220);
    }
    if (below(8) == 0) {
      FILE *file = fopen("hostile.b2nd", "wb");
      fwrite(bytes, 1, (size_t)size, file);
      fclose(file);
      int result = b2nd_open("hostile.b2nd", &array);
      count(result);
      if (result == 0) {
        count(b2nd_append(array, data, 100, 0));
        b2nd_free(array);
      }
      remove("hostile.b2nd");
    }
    int result = b2nd_from_cframe(bytes, size, below(2), &array);
    count(result);
    if (result == 0) {
      count(b2nd_to_cbuffer(array, back, sizeof(back)));
      int64_t start[B2ND_MAX_DIM] = {3, 4}, stop[B2ND_MAX_DIM] = {40, 30}, room[B2ND_MAX_DIM] = {37, 26};
      count(b2nd_get_slice_cbuffer(array, start, stop, back, room, sizeof(back)));
      int64_t coords[3] = {5, 2999, 1000};
      count(b2nd_get_sparse_cbuffer(array, 3, coords, back, 24));
      uint8_t *content, *got;
      int32_t content_len;
      result = blosc2_vlmeta_get(array->sc, "about", &content, &content_len);
      count(result);
      if (result >= 0) {
        free(content);
      }
      result = blosc2_schunk_get_lazychunk(array->sc, 1, &got, &needs_free);
      count(result);
      if (result >= 0) {
        count(blosc2_decompress_ctx(array->sc->dctx, got, result, back, sizeof(back)));
        if (needs_free) {
          free(got);
        }
      }
      free(blosc2_frame_get_offsets(array->sc));
      count(b2nd_set_slice_cbuffer(data, room, sizeof(data), start, stop, array));
      b2nd_free(array);
    }
    free(bytes);
  }
  free(frame);
  b2nd_free_ctx(ctx);
}

int main(int argc, char **argv) {
  int times = argc > 1 ? atoi(argv[1]) : 1000;
  blosc2_init();
  chunks(times);
  frames(times);
  blosc2_destroy();
  printf("hostile: %lld refused, %lld read\n", (long long)refused, (long long)read_all);
  CHECK(refused > times && read_all > times);
  return finish("hostile");
}
