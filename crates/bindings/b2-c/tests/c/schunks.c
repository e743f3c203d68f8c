/* Super-chunks in memory, in files and in directories. */
#include "blosc2.h"

#include "check.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 10000

static int32_t data[N], back[4 * N];

static void fill(int nchunk) {
  for (int n = 0; n < N; n++) {
    data[n] = nchunk * N + n;
  }
}

static void all(bool contiguous, char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.compcode = BLOSC_LZ4;
  cparams.blocksize = 8000;
  blosc2_storage storage = blosc2_get_blosc2_storage_defaults();
  blosc2_io io = blosc2_get_blosc2_io_defaults();
  storage.contiguous = contiguous;
  storage.urlpath = urlpath;
  storage.cparams = &cparams;
  storage.io = &io;
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(schunk != NULL && schunk->nchunks == 0 && (schunk->frame != NULL) == (contiguous || urlpath != NULL));
  if (schunk == NULL) {
    return;
  }
  CHECK(urlpath == NULL || blosc2_schunk_new(&storage) == NULL);
  CHECK(blosc2_meta_add(schunk, "numbers", (uint8_t *)"12345", 5) == 0);
  CHECK(blosc2_meta_add(schunk, "numbers", (uint8_t *)"12345", 5) < 0);
  for (int n = 0; n < 3; n++) {
    fill(n);
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == n + 1);
  }
  CHECK(blosc2_meta_add(schunk, "later", (uint8_t *)"abc", 3) == 1);
  CHECK(blosc2_meta_update(schunk, "numbers", (uint8_t *)"54", 2) == 0);
  uint8_t *content;
  int32_t len;
  CHECK(blosc2_meta_get(schunk, "numbers", &content, &len) == 0 && len == 5 && memcmp(content, "54345", 5) == 0);
  free(content);
  CHECK(schunk->nchunks == 3 && schunk->nbytes == 3 * (int64_t)sizeof(data) && schunk->cbytes > 0);
  CHECK(schunk->chunksize == sizeof(data));
  for (int n = 0; n < 3; n++) {
    fill(n);
    CHECK(blosc2_schunk_decompress_chunk(schunk, n, back, sizeof(data)) == (int)sizeof(data));
    CHECK(memcmp(data, back, sizeof(data)) == 0);
  }
  CHECK(blosc2_schunk_decompress_chunk(schunk, 3, back, sizeof(data)) < 0);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, back, sizeof(data) - 1) < 0);
  CHECK(blosc2_schunk_get_slice_buffer(schunk, 9990, 20010, back) == 0);
  CHECK(back[0] == 9990 && back[10019] == 20009);
  for (int n = 0; n < 20; n++) {
    back[n] = -n;
  }
  CHECK(blosc2_schunk_set_slice_buffer(schunk, 9990, 10010, back) == 0);
  int64_t coords[3] = {10009, 5, 29999};
  CHECK(blosc2_schunk_get_sparse_buffer(schunk, 3, coords, back) == 0);
  CHECK(back[0] == -19 && back[1] == 5 && back[2] == 29999);
  int64_t outside = 30000;
  CHECK(blosc2_schunk_get_sparse_buffer(schunk, 1, &outside, back) < 0);
  CHECK(blosc2_schunk_get_slice_buffer(schunk, 0, 30001, back) < 0);

  uint8_t *chunk;
  bool needs_free;
  int cbytes = blosc2_schunk_get_chunk(schunk, 1, &chunk, &needs_free);
  CHECK(cbytes > 0 && (needs_free || chunk == schunk->data[1]));
  CHECK(blosc2_schunk_insert_chunk(schunk, 0, chunk, true) == 4);
  CHECK(blosc2_schunk_append_chunk(schunk, chunk, !needs_free) == 5);
  cbytes = blosc2_schunk_get_lazychunk(schunk, 3, &chunk, &needs_free);
  CHECK(cbytes > 0);
  CHECK(blosc2_decompress_ctx(schunk->dctx, chunk, cbytes, back, sizeof(data)) == (int)sizeof(data));
  CHECK(back[0] == 20000 && back[N - 1] == 29999);
  CHECK(blosc2_getitem_ctx(schunk->dctx, chunk, cbytes, 100, 2, back, 8) == 8 && back[1] == 20101);
  if (needs_free) {
    free(chunk);
  }
  cbytes = blosc2_schunk_get_chunk(schunk, 3, &chunk, &needs_free);
  CHECK(blosc2_schunk_update_chunk(schunk, 0, chunk, true) == 5);
  if (needs_free) {
    free(chunk);
  }
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, back, sizeof(data)) == (int)sizeof(data) && back[0] == 20000);
  CHECK(blosc2_schunk_delete_chunk(schunk, 4) == 4 && blosc2_schunk_delete_chunk(schunk, 9) < 0);
  int64_t order[4] = {3, 2, 1, 0}, twice[4] = {0, 0, 1, 2};
  CHECK(blosc2_schunk_reorder_offsets(schunk, order) == 0 && blosc2_schunk_reorder_offsets(schunk, twice) < 0);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 2, back, sizeof(data)) == (int)sizeof(data) && back[0] == 0);
  CHECK(schunk->nbytes == 4 * (int64_t)sizeof(data));
  int64_t first = 5, last = 20005, *touched;
  CHECK(blosc2_get_slice_nchunks(schunk, &first, &last, &touched) == 3 && touched[0] == 0 && touched[2] == 2);
  free(touched);

  CHECK(blosc2_vlmeta_add(schunk, "one", (uint8_t *)"first", 5, NULL) == 0);
  CHECK(blosc2_vlmeta_add(schunk, "two", (uint8_t *)"second", 6, &cparams) == 1);
  CHECK(blosc2_vlmeta_add(schunk, "two", (uint8_t *)"second", 6, NULL) < 0);
  CHECK(blosc2_vlmeta_exists(schunk, "two") == 1 && blosc2_vlmeta_exists(schunk, "three") < 0);
  /* In files, too, the content is compressed with the given parameters. */
  blosc2_cparams zlib = BLOSC2_CPARAMS_DEFAULTS;
  zlib.compcode = BLOSC_ZLIB;
  CHECK(blosc2_vlmeta_update(schunk, "one", (uint8_t *)data, 1000, &zlib) == 0);
  CHECK(strcmp(blosc2_cbuffer_complib(schunk->vlmetalayers[0]->content), "Zlib") == 0);
  CHECK(blosc2_vlmeta_update(schunk, "one", (uint8_t *)"longer than before", 18, NULL) == 0);
  CHECK(blosc2_vlmeta_get(schunk, "one", &content, &len) == 0 && len == 18 && memcmp(content, "longer", 6) == 0);
  free(content);
  char *names[2];
  CHECK(blosc2_vlmeta_get_names(schunk, names) == 2 && strcmp(names[0], "one") == 0);
  CHECK(blosc2_vlmeta_delete(schunk, "two") == 1 && schunk->nvlmetalayers == 1);
  for (int n = 0; n < 15; n++) {
    char name[8];
    snprintf(name, sizeof(name), "n%d", n);
    CHECK(blosc2_vlmeta_add(schunk, name, (uint8_t *)name, 3, NULL) == n + 1);
  }

  blosc2_cparams *params;
  CHECK(blosc2_schunk_get_cparams(schunk, &params) == 0 && params->compcode == BLOSC_LZ4 && params->typesize == 4);
  free(params);
  blosc2_dparams *dparams;
  CHECK(blosc2_schunk_get_dparams(schunk, &dparams) == 0 && dparams->nthreads >= 1);
  free(dparams);
  CHECK(blosc2_schunk_lock(schunk) == 0 && blosc2_schunk_unlock(schunk) == 0);
  CHECK(blosc2_schunk_refresh(schunk) == 0);
  CHECK(blosc2_schunk_frame_len(schunk) > 0);
  if (schunk->frame != NULL) {
    int64_t *offsets = blosc2_frame_get_offsets(schunk);
    CHECK(offsets != NULL);
    free(offsets);
  }

  uint8_t *cframe;
  int64_t size = blosc2_schunk_to_buffer(schunk, &cframe, &needs_free);
  CHECK(size > 0);
  blosc2_schunk *copy = blosc2_schunk_from_buffer(cframe, size, true);
  blosc2_schunk *same = blosc2_schunk_from_buffer(cframe, size, false);
  blosc2_schunk_avoid_cframe_free(same, true);
  CHECK(copy != NULL && copy->nchunks == 4 && copy->nmetalayers == 2 && copy->nvlmetalayers == 16);
  CHECK(same != NULL && same->nbytes == schunk->nbytes);
  CHECK(blosc2_schunk_append_buffer(copy, data, sizeof(data)) == 5 && same->nchunks == 4);
  CHECK(blosc2_schunk_free(copy) == 0 && blosc2_schunk_free(same) == 0);
  if (needs_free) {
    free(cframe);
  }
  blosc2_cparams other = BLOSC2_CPARAMS_DEFAULTS;
  other.typesize = 4;
  other.compcode = BLOSC_ZSTD;
  blosc2_storage memory = {.cparams = &other};
  copy = blosc2_schunk_copy(schunk, &memory);
  CHECK(copy != NULL && copy->nchunks == 4 && copy->compcode == BLOSC_ZSTD && copy->nvlmetalayers == 16);
  CHECK(blosc2_schunk_decompress_chunk(copy, 2, back, sizeof(data)) == (int)sizeof(data) && back[0] == 0);
  blosc2_schunk_free(copy);
  int64_t length = blosc2_schunk_to_file(schunk, "saved.b2frame");
  CHECK(length > 0);
  int64_t offset = blosc2_schunk_append_file(schunk, "saved.b2frame");
  CHECK(offset == length);
  for (int n = 0; n < 4; n++) {
    blosc2_schunk *opened = n == 0   ? blosc2_schunk_open("saved.b2frame")
                            : n == 1 ? blosc2_schunk_open_offset("saved.b2frame", offset)
                            : n == 2 ? blosc2_schunk_open_udio("saved.b2frame", &io)
                                     : blosc2_schunk_open_offset_udio("saved.b2frame", offset, &io);
    CHECK(opened != NULL && opened->nchunks == 4 && opened->nvlmetalayers == 16);
    if (opened != NULL) {
      CHECK(blosc2_schunk_decompress_chunk(opened, 2, back, sizeof(data)) == (int)sizeof(data) && back[0] == 0);
      CHECK(blosc2_schunk_free(opened) == 0);
    }
  }
  CHECK(blosc2_schunk_free(schunk) == 0);
  if (urlpath != NULL) {
    schunk = blosc2_schunk_open(urlpath);
    CHECK(schunk != NULL && schunk->nchunks == 4 && strcmp(schunk->storage->urlpath, urlpath) == 0);
    /* Two handles: the first one sees the changes of the second one. */
    blosc2_schunk *second = blosc2_schunk_open(urlpath);
    CHECK(blosc2_schunk_append_buffer(second, data, sizeof(data)) == 5);
    CHECK(blosc2_schunk_refresh(schunk) == 1 && schunk->nchunks == 5);
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 6);
    CHECK(blosc2_schunk_append_buffer(second, data, sizeof(data)) == 7);
    blosc2_schunk_free(second);
    blosc2_schunk_free(schunk);
    CHECK(blosc2_rename_urlpath(urlpath, "renamed") == 0);
    CHECK(blosc2_schunk_open(urlpath) == NULL);
    CHECK((contiguous ? blosc2_remove_urlpath("renamed") : blosc2_remove_dir("renamed")) == 0);
  }
  CHECK(blosc2_remove_urlpath("saved.b2frame") == 0 && blosc2_remove_urlpath("saved.b2frame") == 0);
}

static void special(char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 8;
  blosc2_storage storage = {.contiguous = true, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(blosc2_schunk_fill_special(schunk, 100000, BLOSC2_SPECIAL_NAN, 80000) == 10);
  CHECK(blosc2_schunk_fill_special(schunk, 100000, BLOSC2_SPECIAL_NAN, 80000) < 0);
  double value;
  CHECK(blosc2_schunk_get_slice_buffer(schunk, 99999, 100000, &value) == 0 && value != value);
  CHECK(schunk->nbytes == 800000 && blosc2_schunk_frame_len(schunk) < 1000);
  blosc2_schunk_free(schunk);
  blosc2_remove_urlpath(urlpath);
}

/* Two names of one file: changes by one are visible to the other, even after many chunks were replaced. */
static void linked(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = true, .urlpath = "one.b2frame", .cparams = &cparams};
  blosc2_remove_urlpath("one.b2frame");
  unlink("other.b2frame");
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  blosc2_schunk_free(schunk);
  CHECK(link("one.b2frame", "other.b2frame") == 0);
  schunk = blosc2_schunk_open("other.b2frame");
  uint8_t chunk[sizeof(data) + 32];
  int32_t noise[sizeof(data) / 4];
  uint32_t state = 7;
  for (int n = 0; n < 30; n++) {
    for (size_t k = 0; k < sizeof(data) / 4; k++) {
      state = state * 1664525 + 1013904223;
      noise[k] = (int32_t)state;
    }
    CHECK(blosc2_compress_ctx(schunk->cctx, noise, sizeof(noise), chunk, sizeof(chunk)) > 0);
    CHECK(blosc2_schunk_update_chunk(schunk, 0, chunk, true) == 1);
  }
  /* This would need another file. */
  CHECK(blosc2_meta_add(schunk, "another", (uint8_t *)"45", 2) < 0);
  blosc2_schunk_free(schunk);
  schunk = blosc2_schunk_open("one.b2frame");
  CHECK(blosc2_schunk_decompress_chunk(schunk, 0, back, sizeof(data)) == (int)sizeof(data));
  CHECK(memcmp(back, noise, sizeof(noise)) == 0);
  blosc2_schunk_free(schunk);
  CHECK(unlink("one.b2frame") == 0 && unlink("other.b2frame") == 0);
}

/* Consecutive frames in a file: the last one changes, the others keep the bytes after them. */
static void at_offsets(void) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 2);
  CHECK(blosc2_meta_add(schunk, "fixed", (uint8_t *)"0123", 4) == 0);
  blosc2_remove_urlpath("several.b2frame");
  int64_t middle = blosc2_schunk_to_file(schunk, "several.b2frame");
  CHECK(blosc2_schunk_append_file(schunk, "several.b2frame") == middle);
  int64_t last = blosc2_schunk_append_file(schunk, "several.b2frame");
  blosc2_schunk_free(schunk);
  int32_t other[sizeof(data) / 4];
  memset(other, 1, sizeof(other));
  for (int n = 0; n < 3; n++) {
    schunk = n == 0   ? blosc2_schunk_open("several.b2frame")
             : n == 1 ? blosc2_schunk_open_offset("several.b2frame", 0)
                      : blosc2_schunk_open_offset("several.b2frame", middle);
    CHECK(blosc2_schunk_append_buffer(schunk, other, sizeof(other)) < 0 && schunk->nchunks == 2);
    CHECK(blosc2_schunk_delete_chunk(schunk, 0) < 0);
    CHECK(blosc2_meta_add(schunk, "another", (uint8_t *)"45", 2) < 0);
    CHECK(blosc2_meta_update(schunk, "fixed", (uint8_t *)"abcd", 4) < 0);
    CHECK(blosc2_vlmeta_add(schunk, "note", (uint8_t *)"text", 4, NULL) < 0);
    blosc2_schunk_free(schunk);
  }
  /* The same under another name of the file. */
  CHECK(link("several.b2frame", "linked.b2frame") == 0);
  schunk = blosc2_schunk_open("linked.b2frame");
  CHECK(blosc2_schunk_append_buffer(schunk, other, sizeof(other)) < 0);
  blosc2_schunk_free(schunk);
  CHECK(unlink("linked.b2frame") == 0);
  schunk = blosc2_schunk_open_offset("several.b2frame", last);
  CHECK(blosc2_schunk_append_buffer(schunk, other, sizeof(other)) == 3);
  CHECK(blosc2_schunk_delete_chunk(schunk, 0) == 2);
  CHECK(blosc2_vlmeta_add(schunk, "note", (uint8_t *)"text", 4, NULL) == 0);
  CHECK(blosc2_meta_update(schunk, "fixed", (uint8_t *)"abcd", 4) == 0);
  CHECK(blosc2_schunk_decompress_chunk(schunk, 1, back, sizeof(data)) == (int)sizeof(data));
  CHECK(memcmp(back, other, sizeof(other)) == 0);
  blosc2_schunk_free(schunk);
  for (int n = 0; n < 3; n++) {
    schunk = blosc2_schunk_open_offset("several.b2frame", n == 0 ? 0 : n == 1 ? middle : last);
    CHECK(schunk != NULL && schunk->nchunks == 2 && schunk->nvlmetalayers == (n == 2));
    CHECK(memcmp(schunk->metalayers[0]->content, n == 2 ? "abcd" : "0123", 4) == 0);
    CHECK(blosc2_schunk_decompress_chunk(schunk, 1, back, sizeof(data)) == (int)sizeof(data));
    CHECK(memcmp(back, n == 2 ? other : data, sizeof(other)) == 0);
    blosc2_schunk_free(schunk);
  }
  CHECK(blosc2_remove_urlpath("several.b2frame") == 0);
}

/* python-blosc2's description of one of its indexes, with "stale": false. */
static char index_of[] = "\x82\xa7version\x01\xa7indexes\x81\xa8__self__\x82\xa4kind\xa4"
                         "full\xa5stale\xc2";

/* Whether the index is marked as stale; -1 if its description differs. */
static int is_stale(blosc2_schunk *schunk) {
  uint8_t *content;
  int32_t len;
  int stale = -1;
  if (blosc2_vlmeta_get(schunk, "blosc2_indexes", &content, &len) >= 0) {
    if (len == (int)sizeof(index_of) - 1 && memcmp(content, index_of, len - 1) == 0) {
      stale = content[len - 1] - 0xC2;
    }
    free(content);
  }
  return stale;
}

/* Each function that changes items marks the indexes of python-blosc2. */
static void indexed(bool contiguous, char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  for (int way = 0; way < 8; way++) {
    blosc2_schunk *schunk = blosc2_schunk_new(&storage);
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 2);
    CHECK(blosc2_vlmeta_add(schunk, "blosc2_indexes", (uint8_t *)index_of, sizeof(index_of) - 1, NULL) == 0);
    if (urlpath != NULL) {
      blosc2_schunk_free(schunk);
      schunk = blosc2_schunk_open(urlpath);
    }
    CHECK(blosc2_vlmeta_add(schunk, "note", (uint8_t *)"text", 4, NULL) == 1 && is_stale(schunk) == 0);
    uint8_t chunk[sizeof(data) + 32];
    CHECK(blosc2_compress_ctx(schunk->cctx, data, sizeof(data), chunk, sizeof(chunk)) > 0);
    int64_t order[2] = {1, 0};
    int32_t items[2] = {7, 8};
    int64_t coords[2] = {3, 9};
    switch (way) {
      case 0: CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 3); break;
      case 1: CHECK(blosc2_schunk_append_chunk(schunk, chunk, true) == 3); break;
      case 2: CHECK(blosc2_schunk_update_chunk(schunk, 0, chunk, true) == 2); break;
      case 3: CHECK(blosc2_schunk_insert_chunk(schunk, 0, chunk, true) == 3); break;
      case 4: CHECK(blosc2_schunk_delete_chunk(schunk, 0) == 1); break;
      case 5: CHECK(blosc2_schunk_reorder_offsets(schunk, order) == 0); break;
      case 6: CHECK(blosc2_schunk_set_slice_buffer(schunk, 5, 7, items) == 0); break;
      default: CHECK(blosc2_schunk_get_sparse_buffer(schunk, 2, coords, back) == 0); break;
    }
    /* Reading changes nothing. The handle continues to show the data that its program stored. */
    CHECK(urlpath != NULL || is_stale(schunk) == (way < 7));
    blosc2_schunk_free(schunk);
    if (urlpath != NULL) {
      schunk = blosc2_schunk_open(urlpath);
      CHECK(is_stale(schunk) == (way < 7));
      blosc2_schunk_free(schunk);
      CHECK((contiguous ? blosc2_remove_urlpath(urlpath) : blosc2_remove_dir(urlpath)) == 0);
    }
  }
}

/* A lazy chunk of two blocks: header, starts of the blocks, number of the chunk, offset, and sizes of the blocks. */
static void lazy_blocks(blosc2_schunk *schunk) {
  uint8_t *block;
  int32_t size;
  uint8_t *lazy, plain[16];
  bool needs_free;
  int len = blosc2_schunk_get_lazychunk(schunk, 0, &lazy, &needs_free), least = BLOSC_EXTENDED_HEADER_LENGTH + 2 * 8 + 12;
  CHECK(len == least && needs_free);
  CHECK(blosc2_vlchunk_get_nblocks(lazy, len, &size) == 0 && size == 2);
  CHECK(blosc2_vldecompress_block_ctx(schunk->dctx, lazy, len, 0, &block, &size) == 5 && memcmp(block, "alpha", 5) == 0);
  free(block);
  CHECK(blosc2_decompress_ctx(schunk->dctx, lazy, len, plain, sizeof(plain)) == 16 && memcmp(plain, "alphaomega", 10) == 0);
  void *blocks[2];
  int32_t lengths[2];
  CHECK(blosc2_vldecompress_ctx(schunk->dctx, lazy, len, blocks, lengths, 2) == 2 && lengths[1] == 11);
  CHECK(memcmp(blocks[1], "omega omega", 11) == 0);
  free(blocks[0]);
  free(blocks[1]);
  CHECK(blosc2_decompress_ctx(schunk->dctx, lazy, len - 1, plain, sizeof(plain)) < 0);
  memset(lazy + len - 8, 0, 4);
  CHECK(blosc2_vldecompress_block_ctx(schunk->dctx, lazy, len, 0, &block, &size) == BLOSC2_ERROR_INVALID_HEADER);
  free(lazy);
}

static void any_blocks(char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 1;
  blosc2_storage storage = {.contiguous = true, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  const void *sources[2] = {"alpha", "omega omega"};
  const int32_t sizes[2] = {5, 11};
  uint8_t chunk[200], *block;
  CHECK(blosc2_vlcompress_ctx(schunk->cctx, sources, sizes, 2, chunk, sizeof(chunk)) > 0);
  CHECK(blosc2_schunk_append_chunk(schunk, chunk, true) == 1);
  int32_t size;
  CHECK(blosc2_schunk_get_vlblock(schunk, 0, 1, &block, &size) == 11 && memcmp(block, "omega", 5) == 0);
  free(block);
  if (urlpath != NULL) {
    lazy_blocks(schunk);
  }
  CHECK(blosc2_schunk_append_buffer(schunk, data, 100) < 0);
  blosc2_schunk_free(schunk);
  blosc2_remove_urlpath(urlpath);
}

static blosc2_schunk *open_locking(char *urlpath) {
  static blosc2_stdio_params params = {.locking = true};
  blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};
  return blosc2_schunk_open_udio(urlpath, &io);
}

/* The content of a metalayer through a handle, as a number. */
static int noted(blosc2_schunk *schunk, const char *name) {
  uint8_t *content;
  int32_t len;
  int value = -1;
  if (blosc2_vlmeta_get(schunk, name, &content, &len) >= 0) {
    value = content[0];
    free(content);
  }
  return value;
}

static int first_of(blosc2_schunk *schunk, int64_t nchunk) {
  return blosc2_schunk_decompress_chunk(schunk, nchunk, back, sizeof(data)) == (int)sizeof(data) ? back[0] : -1;
}

static int64_t append(blosc2_schunk *schunk, int32_t first) {
  int32_t items[sizeof(data) / 4] = {first};
  return blosc2_schunk_append_buffer(schunk, items, sizeof(items));
}

/* Two handles with locking: each sees the changes of the other, whatever it does in between. */
static void two_handles(bool contiguous, char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *new = blosc2_schunk_new(&storage);
  CHECK(blosc2_meta_add(new, "fixed", (uint8_t *)"0123", 4) == 0);
  CHECK(append(new, 0) == 1 && append(new, 1) == 2);
  blosc2_schunk_free(new);
  blosc2_schunk *one = open_locking(urlpath), *two = open_locking(urlpath);
  CHECK(one != NULL && two != NULL);
  uint8_t value = 1;
  CHECK(blosc2_vlmeta_add(one, "note", &value, 1, NULL) == 0 && noted(two, "note") == 1);

  /* Reading under the lock is no change. */
  int64_t tick = two->change_tick;
  CHECK(blosc2_schunk_lock(two) == 0 && noted(two, "note") == 1 && blosc2_schunk_unlock(two) == 0);
  CHECK(blosc2_schunk_refresh(two) == 0 && two->change_tick == tick);
  /* A change right after that is one, of metalayers too. */
  CHECK(blosc2_schunk_lock(two) == 0 && blosc2_schunk_unlock(two) == 0);
  tick = two->change_tick;
  CHECK(blosc2_schunk_lock(one) == 0);
  value = 2;
  CHECK(blosc2_vlmeta_update(one, "note", &value, 1, NULL) == 0);
  CHECK(blosc2_schunk_unlock(one) == 0);
  CHECK(noted(two, "note") == 2 && two->change_tick != tick);
  tick = two->change_tick;
  CHECK(blosc2_schunk_lock(one) == 0 && blosc2_vlmeta_delete(one, "note") == 0 && blosc2_schunk_unlock(one) == 0);
  CHECK(blosc2_vlmeta_exists(two, "note") < 0 && two->nvlmetalayers == 0 && two->change_tick != tick);
  CHECK(blosc2_vlmeta_add(one, "note", &value, 1, NULL) == 0);
  tick = two->change_tick;
  CHECK(blosc2_schunk_lock(two) == 0);
  CHECK(two->nvlmetalayers == 1 && two->change_tick != tick);
  CHECK(blosc2_schunk_unlock(two) == 0);

  /* Each operation of one shows the earlier changes of the other. */
  CHECK(append(one, 2) == 3 && append(two, 3) == 4 && append(one, 4) == 5);
  CHECK(two->nchunks == 4 && blosc2_schunk_refresh(two) == 1 && two->nchunks == 5);
  CHECK(blosc2_schunk_refresh(two) == 0);
  CHECK(blosc2_vlmeta_add(one, "more", &value, 1, NULL) == 1);
  CHECK(append(two, 5) == 6 && two->nvlmetalayers == 2);
  CHECK(blosc2_meta_update(one, "fixed", (uint8_t *)"abcd", 4) == 0);
  CHECK(blosc2_vlmeta_delete(two, "more") == 1 && memcmp(two->metalayers[0]->content, "abcd", 4) == 0);
  CHECK(one->nvlmetalayers == 2 && blosc2_vlmeta_exists(one, "more") < 0 && one->nvlmetalayers == 1);
  CHECK(blosc2_schunk_delete_chunk(one, 0) == 5 && first_of(two, 0) == 1);
  for (int n = 0; n < 5; n++) {
    CHECK(first_of(one, n) == n + 1 && first_of(two, n) == n + 1);
  }
  CHECK(one->nbytes == two->nbytes);

  /* So do functions that only read. */
  CHECK(append(one, 6) == 6);
  int64_t last = 5 * (int64_t)sizeof(data) / 4;
  int32_t item = 0;
  CHECK(blosc2_schunk_get_sparse_buffer(two, 1, &last, &item) == 0 && item == 6);
  CHECK(append(one, 7) == 7);
  int64_t *offsets = blosc2_frame_get_offsets(two);
  CHECK(offsets != NULL && two->nchunks == 7);
  free(offsets);
  CHECK(append(one, 8) == 8);
  uint8_t *cframe = NULL;
  bool needs_free = false;
  int64_t size = blosc2_schunk_to_buffer(two, &cframe, &needs_free);
  blosc2_schunk *copy = blosc2_schunk_from_buffer(cframe, size, true);
  CHECK(copy != NULL && copy->nchunks == 8);
  blosc2_schunk_free(copy);
  if (needs_free) {
    free(cframe);
  }
  CHECK(append(one, 9) == 9);
  copy = blosc2_schunk_copy(two, &(blosc2_storage){.cparams = NULL});
  CHECK(copy != NULL && copy->nchunks == 9);
  blosc2_schunk_free(copy);
  /* Adding a metalayer to a frame with chunks rewrites the file. */
  CHECK(blosc2_meta_add(one, "late", (uint8_t *)"x", 1) == 1);
  CHECK(append(two, 10) == 10 && two->nmetalayers == 2 && first_of(one, 9) == 10);
  CHECK(blosc2_schunk_lock(one) == 0 && append(one, 11) == 11);
  CHECK(blosc2_meta_add(one, "later", (uint8_t *)"y", 1) == 2 && append(one, 12) == 12);
  CHECK(blosc2_schunk_unlock(one) == 0);
  CHECK(first_of(two, 11) == 12 && first_of(two, 10) == 11 && two->nmetalayers == 3);
  blosc2_schunk_free(one);
  blosc2_schunk_free(two);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

/* Opens the file of the lock. */
static FILE *lock_file(bool contiguous, const char *urlpath) {
  char path[100];
  snprintf(path, sizeof(path), contiguous ? "%s.b2lock" : "%s/.b2lock", urlpath);
  return fopen(path, "rb");
}

/* Number of changes of the frame with locking on, which C-Blosc2 also stores in the lock file. */
static int64_t changes_of(bool contiguous, const char *urlpath) {
  int64_t counter = -1;
  FILE *file = lock_file(contiguous, urlpath);
  if (file != NULL) {
    if (fseek(file, 8, SEEK_SET) != 0 || fread(&counter, sizeof(counter), 1, file) != 1) {
      counter = -1;
    }
    fclose(file);
  }
  return counter;
}

/* Whether the lock is held. */
static bool is_held(bool contiguous, const char *urlpath) {
  FILE *file = lock_file(contiguous, urlpath);
  bool held = file != NULL && flock(fileno(file), LOCK_EX | LOCK_NB) != 0;
  if (file != NULL) {
    fclose(file);
  }
  return held;
}

/* The state that a program finds when it opens the frame now or after a crash: numbers of chunks and of metalayers of both kinds. */
static bool is_there(char *urlpath, int64_t nchunks, int nmetas, int nvlmetas) {
  blosc2_schunk *schunk = blosc2_schunk_open(urlpath);
  bool there = schunk != NULL && schunk->nchunks == nchunks && schunk->nmetalayers == nmetas &&
               schunk->nvlmetalayers == nvlmetas;
  for (int64_t n = 0; there && n < nchunks; n++) {
    there = first_of(schunk, n) == n;
  }
  blosc2_schunk_free(schunk);
  return there;
}

/* Each call that changes something is one commit, and so are all changes within the lock. */
static void one_commit(bool contiguous, char *urlpath) {
  static blosc2_stdio_params params = {.locking = true};
  blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams, .io = &io};
  uint8_t value = 1;

  /* The chunk size is stored with the first addition. */
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  schunk->chunksize = (int32_t)sizeof(data);
  CHECK(blosc2_vlmeta_add(schunk, "note", &value, 1, NULL) == 0 && changes_of(contiguous, urlpath) == 1);
  blosc2_schunk_free(schunk);
  CHECK(is_there(urlpath, 0, 0, 1) && blosc2_remove_urlpath(urlpath) == 0);
  FILE *old = lock_file(contiguous, urlpath);
  if (old != NULL) {
    char path[100];
    fclose(old);
    snprintf(path, sizeof(path), "%s.b2lock", urlpath);
    CHECK(unlink(path) == 0);
  }
  schunk = blosc2_schunk_new(&storage);
  schunk->chunksize = (int32_t)sizeof(data) + 4;
  CHECK(append(schunk, 0) == 1 && changes_of(contiguous, urlpath) == 1);

  CHECK(append(schunk, 1) == 2 && changes_of(contiguous, urlpath) == 2);
  CHECK(blosc2_meta_add(schunk, "first", (uint8_t *)"0123", 4) == 0 && changes_of(contiguous, urlpath) == 3);
  CHECK(blosc2_meta_update(schunk, "first", (uint8_t *)"abcd", 4) == 0 && changes_of(contiguous, urlpath) == 4);
  CHECK(blosc2_vlmeta_add(schunk, "note", &value, 1, NULL) == 0 && changes_of(contiguous, urlpath) == 5);
  value = 2;
  CHECK(blosc2_vlmeta_update(schunk, "note", &value, 1, NULL) == 0 && changes_of(contiguous, urlpath) == 6);
  CHECK(blosc2_vlmeta_delete(schunk, "note") == 0 && changes_of(contiguous, urlpath) == 7);
  CHECK(is_there(urlpath, 2, 1, 0) && !is_held(contiguous, urlpath));

  CHECK(blosc2_schunk_lock(schunk) == 0);
  CHECK(append(schunk, 2) == 3);
  CHECK(blosc2_meta_add(schunk, "second", (uint8_t *)"x", 1) == 1);
  CHECK(is_held(contiguous, urlpath) && is_there(urlpath, 2, 1, 0));
  CHECK(blosc2_vlmeta_add(schunk, "note", &value, 1, NULL) == 0);
  CHECK(blosc2_meta_update(schunk, "second", (uint8_t *)"y", 1) == 1);
  CHECK(append(schunk, 3) == 4 && schunk->nmetalayers == 2);
  CHECK(blosc2_meta_add(schunk, "third", (uint8_t *)"z", 1) == 2);
  for (int n = 0; n < 4; n++) {
    CHECK(first_of(schunk, n) == n);
  }
  CHECK(is_held(contiguous, urlpath) && is_there(urlpath, 2, 1, 0) && changes_of(contiguous, urlpath) == 7);
  CHECK(blosc2_schunk_unlock(schunk) == 0);
  CHECK(!is_held(contiguous, urlpath) && is_there(urlpath, 4, 3, 1) && changes_of(contiguous, urlpath) == 8);
  CHECK(memcmp(schunk->metalayers[1]->content, "y", 1) == 0 && noted(schunk, "note") == 2);
  CHECK(append(schunk, 4) == 5 && is_there(urlpath, 5, 3, 1));

  /* A program that is killed within the lock has changed nothing, and another one continues. */
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    blosc2_schunk *other = open_locking(urlpath);
    bool done = blosc2_schunk_lock(other) == 0 && append(other, 5) == 6;
    done = done && blosc2_meta_add(other, "fourth", (uint8_t *)"w", 1) == 3 && append(other, 6) == 7;
    _exit(done ? kill(getpid(), SIGKILL) : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  CHECK(is_there(urlpath, 5, 3, 1));
  CHECK(append(schunk, 5) == 6 && blosc2_meta_add(schunk, "fourth", (uint8_t *)"w", 1) == 3);
  CHECK(is_there(urlpath, 6, 4, 1));
  blosc2_schunk_free(schunk);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

/* Others see the chunk size that a program sets in the structure before the first chunk exists. */
static void chunk_size_of_empty(bool contiguous, char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *one = blosc2_schunk_new(&storage);
  one->chunksize = 8192;
  uint8_t value = 1;
  CHECK(blosc2_vlmeta_add(one, "note", &value, 1, NULL) == 0);
  blosc2_schunk *two = open_locking(urlpath);
  CHECK(two->chunksize == 8192 && noted(two, "note") == 1);
  CHECK(blosc2_schunk_append_buffer(two, data, 100) == 1 && two->chunksize == 8192);
  CHECK(blosc2_schunk_refresh(one) == 1 && one->nchunks == 1 && one->nbytes == 100 && one->chunksize == 8192);
  blosc2_schunk_free(one);
  blosc2_schunk_free(two);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

/* A program empties the file of a super-chunk without chunks, and then writes it as a frame. */
static void emptied(char *urlpath) {
  blosc2_storage storage = {.contiguous = true, .urlpath = urlpath};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  uint8_t value = 7, *frame;
  CHECK(blosc2_vlmeta_add(schunk, "note", &value, 1, NULL) == 0);
  for (int round = 0; round < 2; round++) {
    bool needs_free;
    FILE *file = fopen(urlpath, "wb");
    int64_t len = blosc2_schunk_to_buffer(schunk, &frame, &needs_free);
    CHECK(len > 0);
    if (len > 0) {
      CHECK(fwrite(frame, 1, (size_t)len, file) == (size_t)len && needs_free);
      free(frame);
    }
    fclose(file);
    /* The second time with a handle that has only read. */
    blosc2_schunk_free(schunk);
    schunk = blosc2_schunk_open(urlpath);
    CHECK(schunk != NULL);
    if (schunk == NULL) {
      return;
    }
    CHECK(schunk->nchunks == 0 && noted(schunk, "note") == 7);
  }
  CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == 1);
  FILE *file = fopen(urlpath, "wb");
  bool needs_free;
  CHECK(blosc2_schunk_to_buffer(schunk, &frame, &needs_free) < 0);
  fclose(file);
  blosc2_schunk_free(schunk);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

static int64_t size_of(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 ? (int64_t)file.st_size : -1;
}

enum { REPLACED = 4, TIMES = 30 };

/* Chunks are replaced repeatedly: the growth of the file is bounded, and `cbytes` are those of the chunks. */
static void replaced(char *urlpath, bool locking, bool together) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.clevel = 0;
  blosc2_storage storage = {.contiguous = true, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  for (int n = 0; n < REPLACED; n++) {
    fill(n);
    CHECK(blosc2_schunk_append_buffer(schunk, data, sizeof(data)) == n + 1);
  }
  int64_t whole = (int64_t)sizeof(data) + BLOSC2_MAX_OVERHEAD;
  CHECK(schunk->cbytes == REPLACED * whole);
  if (locking) {
    blosc2_schunk_free(schunk);
    schunk = open_locking(urlpath);
  }
  blosc2_schunk *other = blosc2_schunk_open(urlpath);
  blosc2_context *cctx = blosc2_create_cctx(cparams);
  static uint8_t chunk[sizeof(data) + BLOSC2_MAX_OVERHEAD];
  int64_t largest = 0;
  for (int n = 0; n < TIMES; n++) {
    fill(100 + n);
    if (together) {
      CHECK(blosc2_schunk_set_slice_buffer(schunk, n % REPLACED * N, (n % REPLACED + 1) * N, data) == 0);
    } else {
      CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) == (int)sizeof(chunk));
      CHECK(blosc2_schunk_update_chunk(schunk, n % REPLACED, chunk, true) == REPLACED);
    }
    CHECK(schunk->cbytes == REPLACED * whole);
    largest = size_of(urlpath) > largest ? size_of(urlpath) : largest;
    CHECK(first_of(other, n % REPLACED) == (100 + n) * N);
  }
  CHECK(largest <= REPLACED * whole * 5 / 4 + 10000);
  blosc2_schunk_free(schunk);
  /* Dead bytes of the file are not counted after the next change. */
  schunk = blosc2_schunk_open(urlpath);
  fill(0);
  CHECK(blosc2_compress_ctx(cctx, data, sizeof(data), chunk, sizeof(chunk)) == (int)sizeof(chunk));
  CHECK(blosc2_schunk_update_chunk(schunk, 1, chunk, true) == REPLACED && schunk->cbytes == REPLACED * whole);
  CHECK(blosc2_schunk_delete_chunk(schunk, 0) == REPLACED - 1 && schunk->cbytes == (REPLACED - 1) * whole);
  CHECK(first_of(schunk, 0) == 0 && first_of(other, 0) == 0);
  for (int n = REPLACED - 2; n >= 0; n--) {
    CHECK(blosc2_schunk_delete_chunk(schunk, n) == n && schunk->cbytes == n * whole);
    CHECK(size_of(urlpath) <= n * whole * 5 / 4 + 10000);
  }
  blosc2_free_ctx(cctx);
  blosc2_schunk_free(other);
  blosc2_schunk_free(schunk);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

enum { WRITERS = 3, ROUNDS = 8 };

/* Run by each of several processes: appends chunks, and checks their returned positions. */
static bool append_many(char *urlpath, int writer) {
  blosc2_schunk *schunk = open_locking(urlpath);
  bool right = schunk != NULL;
  for (int n = 0; n < ROUNDS && right; n++) {
    int64_t at = append(schunk, writer * ROUNDS + n);
    right = at > 0 && first_of(schunk, at - 1) == writer * ROUNDS + n;
  }
  blosc2_schunk_free(schunk);
  return right;
}

/* Processes append at the same time: none of the chunks is lost, and those of each are in order. */
static void many_writers(char *program, bool contiguous, char *urlpath) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .urlpath = urlpath, .cparams = &cparams};
  blosc2_schunk_free(blosc2_schunk_new(&storage));
  fflush(stdout);
  pid_t writers[WRITERS];
  for (int writer = 0; writer < WRITERS; writer++) {
    char number[12];
    snprintf(number, sizeof(number), "%d", writer);
    writers[writer] = fork();
    if (writers[writer] == 0) {
      execl(program, program, "append", urlpath, number, (char *)NULL);
      _exit(2);
    }
  }
  for (int writer = 0; writer < WRITERS; writer++) {
    int status = -1;
    CHECK(waitpid(writers[writer], &status, 0) == writers[writer] && status == 0);
  }
  blosc2_schunk *schunk = open_locking(urlpath);
  CHECK(schunk->nchunks == WRITERS * ROUNDS);
  int next[WRITERS] = {0};
  for (int64_t nchunk = 0; nchunk < schunk->nchunks; nchunk++) {
    int first = first_of(schunk, nchunk);
    CHECK(first >= 0 && first < WRITERS * ROUNDS && next[first / ROUNDS]++ == first % ROUNDS);
  }
  blosc2_schunk_free(schunk);
  CHECK(blosc2_remove_urlpath(urlpath) == 0);
}

int main(int argc, char **argv) {
  blosc2_init();
  if (argc == 4 && strcmp(argv[1], "append") == 0) {
    return append_many(argv[2], atoi(argv[3])) ? 0 : 1;
  }
  all(false, NULL);
  all(true, NULL);
  all(true, "file.b2frame");
  all(false, "directory.b2frame");
  special(NULL);
  special("special.b2frame");
  at_offsets();
  linked();
  indexed(false, NULL);
  indexed(true, NULL);
  indexed(true, "indexed.b2frame");
  indexed(false, "indexed");
  any_blocks(NULL);
  any_blocks("any.b2frame");
  two_handles(true, "two.b2frame");
  two_handles(false, "two");
  one_commit(true, "commit.b2frame");
  one_commit(false, "commit");
  chunk_size_of_empty(true, "empty.b2frame");
  chunk_size_of_empty(false, "empty");
  emptied("emptied.b2frame");
  replaced("replaced.b2frame", false, false);
  replaced("replaced.b2frame", true, false);
  replaced("replaced.b2frame", false, true);
  replaced("replaced.b2frame", true, true);
  many_writers(argv[0], true, "many.b2frame");
  many_writers(argv[0], false, "many");
  blosc2_destroy();
  return finish("schunks");
}
