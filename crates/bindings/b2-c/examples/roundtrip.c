/* Writes an array to a file, reads a part of it, and checks the items.
 *
 *     cc roundtrip.c $(pkg-config --cflags --libs blosc2) -o roundtrip && ./roundtrip
 */
#include <b2nd.h>

int main(void) {
  static double items[100][200];
  for (int row = 0; row < 100; row++) {
    for (int column = 0; column < 200; column++) {
      items[row][column] = row + column / 1000.0;
    }
  }
  blosc2_init();
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = sizeof(double);
  cparams.compcode = BLOSC_ZSTD;
  blosc2_storage storage = {.contiguous = true, .urlpath = "roundtrip.b2nd", .cparams = &cparams};
  const int64_t shape[2] = {100, 200}, start[2] = {50, 10}, stop[2] = {51, 12}, room[2] = {1, 2};
  const int32_t chunks[2] = {40, 100}, blocks[2] = {10, 50};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunks, blocks, "<f8", DTYPE_NUMPY_FORMAT, NULL, 0);
  b2nd_array_t *array;
  double part[2] = {0, 0};
  int result = b2nd_from_cbuffer(ctx, &array, items, sizeof(items));
  if (result == 0) {
    b2nd_free(array);
    result = b2nd_open("roundtrip.b2nd", &array);
  }
  if (result == 0) {
    result = b2nd_get_slice_cbuffer(array, start, stop, part, room, sizeof(part));
    b2nd_free(array);
  }
  b2nd_free_ctx(ctx);
  blosc2_remove_urlpath("roundtrip.b2nd");
  blosc2_destroy();
  if (result < 0) {
    fprintf(stderr, "%s\n", blosc2_error_string(result));
    return 1;
  }
  int right = part[0] == 50.01 && part[1] == 50.011;
  printf("roundtrip: %d passed, %d failed\n", right, !right);
  return !right;
}
