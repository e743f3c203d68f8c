/* Chunks and arrays with random parameters from one library to the other, and back. Arguments: both libraries, how many. */
#define _GNU_SOURCE
#include "two.h"

#include <unistd.h>

#include "check.h"

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state >> 20) % n);
}

static void fill(uint8_t *bytes, size_t len, uint32_t kind) {
  for (size_t n = 0; n < len; n++) {
    bytes[n] = kind == 0 ? 0 : kind == 1 ? (uint8_t)(n / 13) : kind == 2 ? (uint8_t)below(256) : (uint8_t)(n % 7 * below(2));
  }
}

static blosc2_cparams parameters(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.compcode = (uint8_t[]){0, 1, 2, 4, 5}[below(5)];
  cparams.clevel = (uint8_t)below(10);
  cparams.typesize = (int32_t[]){1, 2, 4, 8, 3, 16, 7}[below(7)];
  cparams.nthreads = (int16_t)(1 + below(3));
  cparams.splitmode = 1 + (int32_t)below(4);
  cparams.filters[5] = (uint8_t)below(3);
  cparams.filters[4] = (uint8_t)(below(5) == 0 ? BLOSC_DELTA : 0);
  return cparams;
}

static void chunk(const library *from, const library *to) {
  uint32_t most = below(3) ? 5000 : 300000;
  blosc2_cparams cparams = parameters();
  int32_t size = (int32_t)(1 + below(most)) * cparams.typesize;
  cparams.blocksize = below(2) ? 0 : (int32_t)(64 + below(4000)) * cparams.typesize;
  uint8_t *data = malloc((size_t)size), *back = malloc((size_t)size), *bytes = malloc((size_t)size + 32);
  fill(data, (size_t)size, below(4));
  blosc2_context *cctx = from->create_cctx(cparams), *dctx = to->create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  int cbytes = from->compress_ctx(cctx, data, size, bytes, size + 32);
  CHECK(cbytes > 0);
  memset(back, 0x5a, (size_t)size);
  CHECK(to->decompress_ctx(dctx, bytes, cbytes, back, size) == size && memcmp(data, back, (size_t)size) == 0);
  /* C-Blosc2 reads parts of chunks with delta wrongly. */
  if (cparams.filters[4] == 0) {
    int items = size / cparams.typesize, start = (int)below((uint32_t)items), n = 1 + (int)below((uint32_t)(items - start));
    CHECK(to->getitem_ctx(dctx, bytes, cbytes, start, n, back, size) == n * cparams.typesize);
    CHECK(memcmp(data + start * cparams.typesize, back, (size_t)(n * cparams.typesize)) == 0);
  }
  from->free_ctx(cctx);
  to->free_ctx(dctx);
  free(data);
  free(back);
  free(bytes);
}

static void check_about(const library *lib, const b2nd_array_t *array, const char *text) {
  uint8_t *content;
  int32_t len;
  CHECK(lib->vlmeta_get(array->sc, "about", &content, &len) >= 0 && len == 8 && memcmp(content, text, 8) == 0);
  free(content);
}

static void array(const library *from, const library *to) {
  blosc2_cparams cparams = parameters();
  cparams.filters[4] = 0;
  int8_t ndim = (int8_t)(1 + below(3));
  int64_t shape[3], start[3], stop[3], room[3], nitems = 1, part = 1;
  int32_t chunks[3], blocks[3];
  for (int axis = 0; axis < ndim; axis++) {
    shape[axis] = 1 + below(ndim == 1 ? 5000 : 40);
    chunks[axis] = (int32_t)(1 + below((uint32_t)shape[axis]));
    blocks[axis] = (int32_t)(1 + below((uint32_t)chunks[axis]));
    start[axis] = below((uint32_t)shape[axis]);
    stop[axis] = start[axis] + 1 + below((uint32_t)(shape[axis] - start[axis]));
    room[axis] = stop[axis] - start[axis];
    nitems *= shape[axis];
    part *= room[axis];
  }
  int64_t size = nitems * cparams.typesize;
  uint8_t *data = malloc((size_t)size), *back = malloc((size_t)size), *other = malloc((size_t)size), *cframe;
  fill(data, (size_t)size, below(4));
  char path[64];
  snprintf(path, sizeof(path), "exchange.%d.b2nd", (int)getpid());
  bool file = below(3) == 0;
  blosc2_storage storage = {.contiguous = !file || below(2), .urlpath = file ? path : NULL, .cparams = &cparams};
  b2nd_context_t *ctx = from->create_array_ctx(&storage, ndim, shape, chunks, blocks, "|V1", 0, NULL, 0);
  b2nd_array_t *made, *got;
  CHECK(from->from_cbuffer(ctx, &made, data, size) == 0);
  CHECK(from->vlmeta_add(made->sc, "about", data, size < 400 ? (int32_t)size : 400, NULL) == 0);
  for (uint32_t n = below(4); n > 0; n--) {
    CHECK(from->vlmeta_update(made->sc, "about", data, size < 200 ? (int32_t)size : 200, NULL) == 0);
  }
  CHECK(from->vlmeta_update(made->sc, "about", (uint8_t *)"exchange", 8, NULL) == 0);
  int64_t len = 0;
  bool needs_free = false;
  if (file) {
    from->free(made);
    CHECK(to->open(path, &got) == 0);
  } else {
    CHECK(from->to_cframe(made, &cframe, &len, &needs_free) == 0);
    CHECK(to->from_cframe(cframe, len, true, &got) == 0);
    if (needs_free) {
      free(cframe);
    }
    from->free(made);
  }
  CHECK(got->ndim == ndim && got->nitems == nitems && strcmp(got->dtype, "|V1") == 0);
  CHECK(to->to_cbuffer(got, back, size) == 0 && memcmp(data, back, (size_t)size) == 0);
  CHECK(to->get_slice(got, start, stop, back, room, size) == 0);
  check_about(to, got, "exchange");
  if (file) {
    /* The other library changes the file, and the first one rereads it. */
    int64_t row = size / shape[0];
    CHECK(to->vlmeta_update(got->sc, "about", (uint8_t *)"by other", 8, NULL) == 0);
    CHECK(to->append(got, data, row, 0) == 0);
    CHECK(to->vlmeta_update(got->sc, "about", (uint8_t *)"after it", 8, NULL) == 0);
    to->free(got);
    CHECK(from->open(path, &got) == 0 && got->shape[0] == shape[0] + 1);
    check_about(from, got, "after it");
    CHECK(from->get_slice(got, start, stop, other, room, size) == 0);
    CHECK(memcmp(back, other, (size_t)(part * cparams.typesize)) == 0);
    for (int axis = 0; axis < ndim; axis++) {
      start[axis] = 0;
      stop[axis] = got->shape[axis];
    }
    start[0] = shape[0];
    room[0] = 1;
    for (int axis = 1; axis < ndim; axis++) {
      room[axis] = shape[axis];
    }
    CHECK(from->get_slice(got, start, stop, other, room, size) == 0 && memcmp(data, other, (size_t)row) == 0);
    from->free(got);
    CHECK(from->remove(path) == 0);
  } else {
    to->free(got);
  }
  from->free_array_ctx(ctx);
  free(data);
  free(back);
  free(other);
}

/* Instrumented chunks: equal except for the figures, and readable by both libraries. */
static void instrumented(const library *ours, const library *theirs) {
  blosc2_cparams cparams = parameters();
  cparams.clevel = (uint8_t)(1 + below(9));
  cparams.nthreads = 1;
  cparams.splitmode = 1 + (int32_t)below(2);
  cparams.filters[4] = 0;
  cparams.instr_codec = true;
  int32_t size = (int32_t)(100 + below(30000)) * cparams.typesize;
  cparams.blocksize = (int32_t)(64 + below(4000)) * cparams.typesize;
  size_t room = (size_t)size * 40 + 64;
  uint8_t *data = malloc((size_t)size), *chunk[2], *back[2] = {malloc(room), malloc(room)};
  fill(data, (size_t)size, below(4));
  const library *libs[2] = {ours, theirs};
  int cbytes[2];
  int32_t nbytes[2], blocksize[2];
  for (int n = 0; n < 2; n++) {
    chunk[n] = malloc(room);
    blosc2_context *cctx = libs[n]->create_cctx(cparams);
    cbytes[n] = libs[n]->compress_ctx(cctx, data, size, chunk[n], (int32_t)room);
    libs[n]->free_ctx(cctx);
    CHECK(cbytes[n] > 32);
    memcpy(&nbytes[n], chunk[n] + BLOSC2_CHUNK_NBYTES, 4);
    memcpy(&blocksize[n], chunk[n] + BLOSC2_CHUNK_BLOCKSIZE, 4);
  }
  CHECK(cbytes[0] == cbytes[1] && memcmp(chunk[0], chunk[1], 32) == 0);
  int nblocks = (nbytes[0] + blocksize[0] - 1) / blocksize[0];
  CHECK(memcmp(chunk[0] + 32, chunk[1] + 32, 4 * (size_t)nblocks) == 0);
  for (int n = 0; n < 2; n++) {
    blosc2_context *dctx = libs[n]->create_dctx(BLOSC2_DPARAMS_DEFAULTS);
    blosc2_instr records[2];
    for (int from = 0; from < 2; from++) {
      memset(back[from], 0x5a, room);
      CHECK(libs[n]->decompress_ctx(dctx, chunk[from], cbytes[from], back[from], nbytes[from]) == nbytes[from]);
    }
    bool right = true;
    for (int32_t at = 0; at < nbytes[0]; at += (int32_t)sizeof(blosc2_instr)) {
      memcpy(&records[0], back[0] + at, sizeof(blosc2_instr));
      memcpy(&records[1], back[1] + at, sizeof(blosc2_instr));
      right &= records[0].flags[0] == records[1].flags[0] && records[0].cspeed > 0 && records[0].filter_speed > 0;
      right &= records[0].cratio > 0 && (!records[0].flags[0] || records[0].cratio == records[1].cratio);
    }
    CHECK(right);
    libs[n]->free_ctx(dctx);
  }
  for (int n = 0; n < 2; n++) {
    free(chunk[n]);
    free(back[n]);
  }
  free(data);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    return 2;
  }
  library ours = load(argv[1]), theirs = load(argv[2]);
  int times = argc > 3 ? atoi(argv[3]) : 200;
  for (int n = 0; n < times; n++) {
    chunk(&ours, &theirs);
    chunk(&theirs, &ours);
    array(&ours, &theirs);
    array(&theirs, &ours);
  }
  for (int n = 0; n < times / 4; n++) {
    instrumented(&ours, &theirs);
  }
  return finish("exchange");
}
