/* Arrays of N dimensions. */
#include "b2nd.h"

#include "check.h"

static const int64_t SHAPE[2] = {30, 40};
static const int32_t CHUNK[2] = {10, 15}, BLOCK[2] = {4, 7};
static int32_t data[1200], back[4000];

static b2nd_context_t *context(bool contiguous, char *urlpath, const int64_t *shape, const int32_t *chunk) {
  const int32_t block[2] = {chunk[0] < BLOCK[0] ? chunk[0] : BLOCK[0], BLOCK[1]};
  static blosc2_cparams cparams;
  cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  blosc2_metalayer meta = {"mine", (uint8_t *)"xyz", 3};
  return b2nd_create_ctx(&storage, 2, shape, chunk, block, "<i4", DTYPE_NUMPY_FORMAT, &meta, 1);
}

/* Whether the array has these items. */
static bool has(b2nd_array_t *array, const int32_t *items) {
  int64_t size = array->nitems * 4;
  memset(back, 1, sizeof(back));
  return b2nd_to_cbuffer(array, back, size) == 0 && memcmp(back, items, (size_t)size) == 0;
}

static void all(bool contiguous, char *urlpath) {
  b2nd_context_t *ctx = context(contiguous, urlpath, SHAPE, CHUNK);
  CHECK(ctx != NULL);
  b2nd_array_t *array, *other;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data) - 1) < 0);
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data)) == 0);
  CHECK(array->ndim == 2 && array->extshape[1] == 45 && array->extchunkshape[0] == 12 && array->nitems == 1200);
  CHECK(array->sc->nchunks == 9 && strcmp(array->dtype, "<i4") == 0 && array->item_array_strides[0] == 40);
  CHECK(blosc2_meta_exists(array->sc, "mine") >= 0 && blosc2_meta_exists(array->sc, "b2nd") >= 0);
  CHECK(has(array, data));
  int64_t start[2] = {7, 13}, stop[2] = {22, 31}, shape[2] = {15, 18};
  CHECK(b2nd_get_slice_cbuffer(array, start, stop, back, shape, 15 * 18 * 4) == 0);
  CHECK(back[0] == data[7 * 40 + 13] && back[15 * 18 - 1] == data[21 * 40 + 30]);
  CHECK(b2nd_get_slice_cbuffer(array, start, stop, back, shape, 15 * 18 * 4 - 1) < 0);
  int64_t beyond[2] = {31, 40};
  CHECK(b2nd_get_slice_cbuffer(array, start, beyond, back, beyond, sizeof(back)) < 0);
  int64_t coords[3] = {1199, 0, 555};
  CHECK(b2nd_get_sparse_cbuffer(array, 3, coords, back, 12) == 0);
  CHECK(back[0] == data[1199] && back[1] == data[0] && back[2] == data[555]);
  int64_t rows[3] = {29, 0, 11}, columns[2] = {39, 16}, *selection[2] = {rows, columns}, sizes[2] = {3, 2};
  CHECK(b2nd_get_orthogonal_selection(array, selection, sizes, back, sizes, 24) == 0);
  CHECK(back[0] == data[29 * 40 + 39] && back[5] == data[11 * 40 + 16]);

  b2nd_context_t *memory = context(false, NULL, SHAPE, CHUNK);
  CHECK(b2nd_get_slice(memory, &other, array, start, stop) == 0);
  CHECK(other->shape[0] == 15 && other->shape[1] == 18);
  CHECK(b2nd_to_cbuffer(other, back, 15 * 18 * 4) == 0 && back[19] == data[8 * 40 + 14]);
  CHECK(b2nd_free(other) == 0);
  b2nd_free_ctx(memory);
  const int32_t large[2] = {20, 30};
  memory = context(true, NULL, SHAPE, large);
  CHECK(b2nd_copy(memory, array, &other) == 0 && other->chunkshape[1] == 30 && has(other, data));
  uint8_t *cframe;
  int64_t size;
  bool needs_free;
  CHECK(b2nd_to_cframe(other, &cframe, &size, &needs_free) == 0);
  b2nd_free(other);
  CHECK(b2nd_from_cframe(cframe, size, true, &other) == 0 && has(other, data));
  if (needs_free) {
    free(cframe);
  }
  b2nd_free(other);
  CHECK(b2nd_save(array, "saved.b2nd") == 0);
  CHECK(b2nd_open("saved.b2nd", &other) == 0 && has(other, data));
  b2nd_free(other);
  blosc2_remove_urlpath("saved.b2nd");
  CHECK(b2nd_save_append(array, "saved.b2nd") == 0);
  int64_t offset = b2nd_save_append(array, "saved.b2nd");
  CHECK(offset > 0);
  CHECK(b2nd_open("saved.b2nd", &other) == 0 && has(other, data));
  b2nd_free(other);
  CHECK(b2nd_open_offset("saved.b2nd", &other, offset) == 0 && has(other, data));
  b2nd_free(other);
  blosc2_schunk *schunk = blosc2_schunk_open("saved.b2nd");
  CHECK(b2nd_from_schunk(schunk, &other) == 0 && has(other, data) && b2nd_print_meta(other) == 0);
  b2nd_free(other);
  blosc2_remove_urlpath("saved.b2nd");

  /* Changes. */
  int32_t ones[15 * 18];
  for (int n = 0; n < 15 * 18; n++) {
    ones[n] = -1;
  }
  CHECK(b2nd_set_slice_cbuffer(ones, shape, sizeof(ones), start, stop, array) == 0);
  CHECK(b2nd_to_cbuffer(array, back, sizeof(data)) == 0);
  bool right = true;
  for (int row = 0; row < 30; row++) {
    for (int column = 0; column < 40; column++) {
      bool inside = row >= 7 && row < 22 && column >= 13 && column < 31;
      right &= back[row * 40 + column] == (inside ? -1 : data[row * 40 + column]);
    }
  }
  CHECK(right);
  int32_t six[6] = {1, 2, 3, 4, 5, 6};
  CHECK(b2nd_set_orthogonal_selection(array, selection, sizes, six, sizes, 24) == 0);
  CHECK(b2nd_get_orthogonal_selection(array, selection, sizes, back, sizes, 24) == 0);
  CHECK(memcmp(back, six, 24) == 0);
  CHECK(b2nd_append(array, data, 2 * 160, 0) == 0 && array->shape[0] == 32);
  int64_t from[2] = {30, 0}, to[2] = {32, 40}, room[2] = {2, 40};
  CHECK(b2nd_get_slice_cbuffer(array, from, to, back, room, 320) == 0 && memcmp(back, data, 320) == 0);
  CHECK(b2nd_insert(array, data, 10 * 160, 0, 10) == 0 && array->shape[0] == 42);
  from[0] = 10;
  to[0] = 20;
  room[0] = 10;
  CHECK(b2nd_get_slice_cbuffer(array, from, to, back, room, 1600) == 0 && memcmp(back, data, 1600) == 0);
  CHECK(b2nd_insert(array, data, 160, 0, 7) < 0);
  CHECK(b2nd_delete(array, 0, 10, 10) == 0 && array->shape[0] == 32);
  int64_t smaller[2] = {13, 22}, larger[2] = {25, 50};
  CHECK(b2nd_resize(array, smaller, NULL) == 0 && array->sc->nchunks == 4);
  CHECK(b2nd_resize(array, larger, NULL) == 0 && array->sc->nchunks == 12 && array->nitems == 1250);
  CHECK(b2nd_to_cbuffer(array, back, 5000) == 0);
  CHECK(back[13 * 50] == 0 && back[22] == 0 && back[12 * 50 + 22] == 0 && back[21] == data[21]);
  CHECK(b2nd_refresh(array) == 0);
  if (urlpath != NULL) {
    CHECK(b2nd_open(urlpath, &other) == 0 && other->shape[1] == 50);
    CHECK(b2nd_resize(other, smaller, NULL) == 0);
    CHECK(b2nd_refresh(array) == 1 && array->shape[1] == 22);
    CHECK(b2nd_resize(array, larger, NULL) == 0);
    b2nd_free(other);
  }
  /* Joining. */
  b2nd_context_t *joined = context(false, NULL, larger, CHUNK);
  CHECK(b2nd_concatenate(joined, array, array, 1, true, &other) == 0 && other->shape[1] == 100);
  CHECK(b2nd_to_cbuffer(other, back, 10000) == 0 && back[50 + 21] == data[21] && back[21] == data[21]);
  b2nd_free(other);
  b2nd_free_ctx(joined);
  CHECK(b2nd_free(array) == 0);
  CHECK(b2nd_free_ctx(ctx) == 0 && b2nd_free_ctx(memory) == 0);
  blosc2_remove_urlpath(urlpath);
}

static void filled(void) {
  b2nd_context_t *ctx = context(true, NULL, SHAPE, CHUNK);
  b2nd_array_t *array;
  int32_t value = 7;
  CHECK(b2nd_full(ctx, &array, &value) == 0 && b2nd_to_cbuffer(array, back, 4800) == 0 && back[1199] == 7);
  b2nd_free(array);
  CHECK(b2nd_zeros(ctx, &array) == 0 && b2nd_to_cbuffer(array, back, 4800) == 0 && back[1199] == 0);
  b2nd_free(array);
  CHECK(b2nd_empty(ctx, &array) == 0 && array->nitems == 1200);
  b2nd_free(array);
  CHECK(b2nd_uninit(ctx, &array) == 0 && array->nitems == 1200);
  b2nd_free(array);
  CHECK(b2nd_nans(ctx, &array) == 0 && b2nd_to_cbuffer(array, back, 4800) == 0);
  float item;
  memcpy(&item, back + 600, 4);
  CHECK(item != item);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
  const int32_t none[2] = {0, 5};
  ctx = context(false, NULL, SHAPE, none);
  CHECK(ctx != NULL && b2nd_zeros(ctx, &array) < 0);
  b2nd_free_ctx(ctx);
}

/* C-Blosc2 only changes the shape when it shrinks an array inside its chunks, and leaves the items there. */
static void shrunk_by_c_blosc2(void) {
  const int64_t smaller[2] = {25, 33};
  char *urlpath = "shrunk.b2nd";
  b2nd_context_t *ctx = context(true, urlpath, SHAPE, CHUNK);
  b2nd_array_t *array;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data)) == 0 && b2nd_free(array) == 0);
  uint8_t *meta;
  int size = b2nd_serialize_meta(2, smaller, CHUNK, BLOCK, "<i4", DTYPE_NUMPY_FORMAT, &meta);
  blosc2_schunk *schunk = blosc2_schunk_open(urlpath);
  CHECK(size > 0 && blosc2_meta_update(schunk, "b2nd", meta, size) >= 0);
  free(meta);
  blosc2_schunk_free(schunk);
  CHECK(b2nd_open(urlpath, &array) == 0 && array->shape[1] == 33);
  const int64_t larger[2] = {42, 38};
  CHECK(b2nd_resize(array, larger, NULL) == 0 && array->nitems == 42 * 38);
  CHECK(b2nd_to_cbuffer(array, back, 42 * 38 * 4) == 0);
  bool right = true;
  for (int i = 0; i < 42 * 38; i++) right &= back[i] == (i / 38 < 25 && i % 38 < 33 ? data[i / 38 * 40 + i % 38] : 0);
  CHECK(right);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
  blosc2_remove_urlpath(urlpath);
}

/* As in C-Blosc2, b2nd_full fills the rest of the last chunks, too, and a larger shape shows it. */
static void padding_of_full(void) {
  b2nd_context_t *ctx = context(false, NULL, SHAPE, CHUNK);
  b2nd_array_t *array;
  int32_t value = 7;
  /* The last row of chunks is cut in the call that shows the padding of the last column. */
  const int64_t other[2] = {28, 50};
  CHECK(b2nd_full(ctx, &array, &value) == 0 && b2nd_resize(array, other, NULL) == 0);
  CHECK(b2nd_to_cbuffer(array, back, 28 * 50 * 4) == 0);
  bool right = true;
  for (int i = 0; i < 28 * 50; i++) right &= back[i] == (i % 50 < 45 ? 7 : 0);
  CHECK(right);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

static void views(void) {
  const int64_t shape[2] = {1, 40};
  const int32_t chunk[2] = {1, 15};
  b2nd_context_t *ctx = context(false, NULL, shape, chunk);
  b2nd_array_t *array, *view, *more;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, 160) == 0);
  CHECK(b2nd_squeeze(array, &view) == 0 && view->ndim == 1 && view->shape[0] == 40 && has(view, data));
  bool axes[3] = {false, true, false}, none[2] = {true, false}, wrong[2] = {false, true};
  CHECK(b2nd_expand_dims(array, &more, axes, 3) == 0 && more->ndim == 3 && more->shape[2] == 40 && has(more, data));
  b2nd_free(more);
  b2nd_free(view);
  CHECK(b2nd_squeeze_index(array, &view, none) == 0 && has(view, data));
  CHECK(b2nd_squeeze_index(array, &more, wrong) < 0);
  uint8_t *cframe;
  int64_t size;
  bool needs_free;
  CHECK(b2nd_to_cframe(view, &cframe, &size, &needs_free) == 0);
  b2nd_free(view);
  CHECK(b2nd_from_cframe(cframe, size, true, &view) == 0 && view->ndim == 1 && has(view, data));
  free(cframe);
  b2nd_free(view);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
  /* Chunks that are longer along the axis are not those of the view. */
  ctx = context(false, NULL, shape, CHUNK);
  const int64_t from = 8, to = 10, two = 2;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, 160) == 0 && b2nd_squeeze(array, &view) == 0);
  CHECK(b2nd_get_slice_cbuffer(view, &from, &to, back, &two, 8) < 0);
  CHECK(b2nd_set_slice_cbuffer(data, &two, 8, &from, &to, view) < 0 && has(array, data));
  b2nd_free(view);
  b2nd_free(array);
  b2nd_free_ctx(ctx);
}

static void metalayers(void) {
  uint8_t *meta;
  int len = b2nd_serialize_meta(2, SHAPE, CHUNK, BLOCK, "<i4", 0, &meta);
  CHECK(len > 0);
  int8_t ndim, format;
  int64_t shape[B2ND_MAX_DIM];
  int32_t chunk[B2ND_MAX_DIM], block[B2ND_MAX_DIM];
  char *dtype;
  CHECK(b2nd_deserialize_meta(meta, len, &ndim, shape, chunk, block, &dtype, &format) == len);
  CHECK(ndim == 2 && shape[1] == 40 && chunk[0] == 10 && block[1] == 7 && strcmp(dtype, "<i4") == 0);
  free(dtype);
  for (int n = 0; n < len; n++) {
    int result = b2nd_deserialize_meta(meta, n, &ndim, shape, chunk, block, &dtype, &format);
    CHECK(result < 0 || result == n);
  }
  free(meta);
}

static void buffers(void) {
  int64_t shape[2] = {30, 40}, start[2] = {3, 4}, stop[2] = {6, 9}, room[2] = {5, 6}, at[2] = {1, 1};
  memset(back, 0, sizeof(back));
  CHECK(b2nd_copy_buffer2(2, 4, data, shape, start, stop, back, room, at) == 0);
  CHECK(back[7] == data[3 * 40 + 4] && back[3 * 6 + 5] == data[5 * 40 + 8] && back[0] == 0);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(b2nd_copy_buffer(2, 4, data, shape, start, stop, back, room, at) == 0);
  stop[1] = 41;
  CHECK(b2nd_copy_buffer2(2, 4, data, shape, start, stop, back, room, at) < 0);
}

/* A copy of the same chunks has the requested dtype, even after it is reopened. */
static void copies(void) {
  const int32_t chunk[2] = {10, 15};
  b2nd_context_t *ctx = context(true, NULL, SHAPE, chunk);
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = true, .cparams = &cparams};
  b2nd_context_t *wanted = b2nd_create_ctx(&storage, 2, SHAPE, chunk, BLOCK, "<f4", DTYPE_NUMPY_FORMAT, NULL, 0);
  b2nd_array_t *array, *copy, *again;
  CHECK(b2nd_from_cbuffer(ctx, &array, data, sizeof(data)) == 0);
  CHECK(b2nd_copy(wanted, array, &copy) == 0);
  uint8_t *cframe;
  int64_t size;
  bool needs_free;
  CHECK(b2nd_to_cframe(copy, &cframe, &size, &needs_free) == 0);
  CHECK(b2nd_from_cframe(cframe, size, true, &again) == 0 && strcmp(again->dtype, "<f4") == 0 && has(again, data));
  free(cframe);
  b2nd_free(again);
  b2nd_free(copy);
  b2nd_free(array);
  b2nd_free_ctx(wanted);
  b2nd_free_ctx(ctx);
}

int main(void) {
  blosc2_init();
  for (int n = 0; n < 1200; n++) {
    data[n] = n * 3 + 1;
  }
  all(false, NULL);
  all(true, NULL);
  all(true, "file.b2nd");
  all(false, "directory.b2nd");
  filled();
  shrunk_by_c_blosc2();
  padding_of_full();
  views();
  metalayers();
  buffers();
  copies();
  blosc2_destroy();
  return finish("arrays");
}
