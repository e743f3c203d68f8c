/* Behaviour that programs written for C-Blosc2 rely on. Unless noted, C-Blosc2 passes, too. */
#include "b2nd.h"
#include "blosc2/codecs-registry.h"
#include "blosc2/filters-registry.h"

#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t shape[2] = {6, 8};
static int32_t chunkshape[2] = {4, 4}, blockshape[2] = {2, 2};

static uint8_t codec = BLOSC_BLOSCLZ;

/* Creates an array of 48 numbers. */
static b2nd_array_t *numbers(bool contiguous, const char *path) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.compcode = codec;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = (char *)path};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunkshape, blockshape, "<i4", 0, NULL, 0);
  int32_t items[48];
  for (int n = 0; n < 48; n++) {
    items[n] = n;
  }
  b2nd_array_t *array = NULL;
  CHECK(b2nd_from_cbuffer(ctx, &array, items, sizeof(items)) == 0);
  b2nd_free_ctx(ctx);
  return array;
}

static bool has_numbers(const char *path) {
  b2nd_array_t *array;
  int32_t items[48];
  if (b2nd_open(path, &array) != 0) {
    return false;
  }
  bool same = b2nd_to_cbuffer(array, items, sizeof(items)) == 0;
  for (int n = 0; n < 48; n++) {
    same = same && items[n] == n;
  }
  b2nd_free(array);
  return same;
}

static void put_text(const char *path) {
  FILE *file = fopen(path, "w");
  fputs("text", file);
  fclose(file);
}

static bool has_text(const char *path) {
  char text[8] = "";
  FILE *file = fopen(path, "r");
  bool same = file != NULL && fread(text, 1, 8, file) == 4 && strcmp(text, "text") == 0;
  if (file != NULL) {
    fclose(file);
  }
  return same;
}

static bool is_dir(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Creates contents that must be kept. */
static void occupy(void) {
  b2nd_free(numbers(true, "array"));
  b2nd_free(numbers(false, "sparse"));
  put_text("plain");
  put_text("target");
  CHECK(symlink("target", "link") == 0 && mkdir("empty", 0777) == 0 && mkdir("full", 0777) == 0);
  put_text("full/plain");
}

static const char *OCCUPIED[] = {"array", "sparse", "plain", "link", "empty", "full"};

static bool all_stayed(void) {
  return has_numbers("array") && has_numbers("sparse") && is_dir("sparse") && has_text("plain") && has_text("target") &&
         has_text("link") && is_dir("empty") && rmdir("empty") == 0 && mkdir("empty", 0777) == 0 && has_text("full/plain");
}

static void leave(void) {
  for (size_t n = 0; n < 5; n++) {
    blosc2_remove_urlpath(OCCUPIED[n]);
  }
  unlink("full/plain");
  rmdir("full");
  unlink("target");
}

/* Saving replaces nothing, and keeps the kind of storage. Only a contiguous super-chunk in memory replaces a file, not a directory. */
static void saving(void) {
  for (int kind = 0; kind < 4; kind++) {
    bool contiguous = kind < 2, stored = kind % 2 == 1;
    occupy();
    b2nd_array_t *array = numbers(contiguous, stored ? "source" : NULL);
    for (size_t n = 0; n < 6; n++) {
      CHECK(b2nd_save(array, (char *)OCCUPIED[n]) == BLOSC2_ERROR_FAILURE);
      if (!contiguous || stored) {
        CHECK(blosc2_schunk_to_file(array->sc, OCCUPIED[n]) == BLOSC2_ERROR_SCHUNK_COPY);
      }
    }
    CHECK(b2nd_save(array, "no/new") == BLOSC2_ERROR_FAILURE && b2nd_save(array, "") == BLOSC2_ERROR_FAILURE);
    CHECK(b2nd_save_append(array, "sparse") == BLOSC2_ERROR_FILE_OPEN);
    CHECK(b2nd_save_append(array, "empty") == BLOSC2_ERROR_FILE_OPEN);
    CHECK(b2nd_save_append(array, "file:///array") == BLOSC2_ERROR_FILE_OPEN);
    CHECK(all_stayed());
    CHECK(b2nd_save(array, "file:///new") == 0);
    CHECK(has_numbers("new") && is_dir("new") == !contiguous);
    blosc2_remove_urlpath("new");
    CHECK(blosc2_schunk_to_file(array->sc, "new") > 0 && has_numbers("new") && !is_dir("new"));
    blosc2_remove_urlpath("new");
    if (contiguous) {
      CHECK(b2nd_save(array, "new/") == BLOSC2_ERROR_FAILURE && access("new", F_OK) != 0);
    }
    if (contiguous && !stored) {
      CHECK(blosc2_schunk_to_file(array->sc, "sparse") == BLOSC2_ERROR_FILE_OPEN);
      CHECK(blosc2_schunk_to_file(array->sc, "empty") == BLOSC2_ERROR_FILE_OPEN);
      CHECK(blosc2_schunk_to_file(array->sc, "file:///plain") == BLOSC2_ERROR_FILE_OPEN);
      CHECK(all_stayed());
      CHECK(blosc2_schunk_to_file(array->sc, "link") > 0 && has_numbers("target"));
    }
    b2nd_free(array);
    blosc2_remove_urlpath("source");
    leave();
  }
}

/* Readers of a frame with locking read correct data while another process replaces chunks. */
static void reading_beside_a_writer(bool contiguous, int reads) {
  blosc2_stdio_params params = {.locking = true};
  blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = "shared", .io = &io};
  static int32_t items[1000];
  blosc2_schunk *schunk = blosc2_schunk_new(&storage);
  for (int n = 0; n < 10; n++) {
    CHECK(blosc2_schunk_append_buffer(schunk, items, sizeof(items)) == n + 1);
  }
  blosc2_schunk_free(schunk);
  int stop[2];
  CHECK(pipe(stop) == 0);
  pid_t writer = fork();
  if (writer == 0) {
    close(stop[1]);
    fcntl(stop[0], F_SETFL, O_NONBLOCK);
    char end;
    uint8_t chunk[sizeof(items) + BLOSC2_MAX_OVERHEAD];
    blosc2_schunk *own = blosc2_schunk_open_udio("shared", &io);
    blosc2_context *context = blosc2_create_cctx(cparams);
    bool good = own != NULL;
    for (int n = 0; read(stop[0], &end, 1) < 0; n++) {
      for (int item = 0; item < 1000; item++) {
        items[item] = item * (n % 7);
      }
      good = good && blosc2_compress_ctx(context, items, sizeof(items), chunk, sizeof(chunk)) > 0;
      good = good && blosc2_schunk_update_chunk(own, n % 10, chunk, true) == 10;
    }
    blosc2_free_ctx(context);
    blosc2_schunk_free(own);
    _exit(good ? 0 : 1);
  }
  close(stop[0]);
  schunk = blosc2_schunk_open_udio("shared", &io);
  int lazy = 0, whole = 0, items_right = 0;
  for (int n = 0; n < reads; n++) {
    uint8_t *chunk;
    bool needs_free = false;
    lazy += blosc2_schunk_get_lazychunk(schunk, n % 10, &chunk, &needs_free) > 0;
    if (needs_free) {
      free(chunk);
    }
    static int32_t out[1000];
    whole += blosc2_schunk_decompress_chunk(schunk, n % 10, out, sizeof(out)) == sizeof(out);
    items_right += out[999] == 999 * out[1] && out[500] == 500 * out[1];
  }
  CHECK(lazy == reads);
  CHECK(whole == reads);
  CHECK(items_right == reads);
  blosc2_schunk_free(schunk);
  close(stop[1]);
  int status;
  CHECK(waitpid(writer, &status, 0) == writer && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  blosc2_remove_urlpath("shared");
}

/* Opening a frame with locking creates its lock file, so that readers can wait for the first writer. If there is no frame, it creates none. */
static void lock_files(void) {
  blosc2_stdio_params params = {.locking = true};
  blosc2_io io = {.id = BLOSC2_IO_FILESYSTEM, .name = "filesystem", .params = &params};
  for (int contiguous = 0; contiguous < 2; contiguous++) {
    const char *lock = contiguous ? "opened.b2lock" : "opened/.b2lock";
    b2nd_free(numbers(contiguous, "opened"));
    CHECK(access(lock, F_OK) != 0);
    blosc2_schunk *schunk = blosc2_schunk_open_udio("opened", &io);
    CHECK(schunk != NULL && access(lock, F_OK) == 0);
    uint8_t *chunk;
    bool needs_free;
    CHECK(blosc2_schunk_get_chunk(schunk, 1, &chunk, &needs_free) > 0);
    if (needs_free) {
      free(chunk);
    }
    blosc2_schunk_free(schunk);
    blosc2_remove_urlpath("opened");
    unlink(lock);
  }
  CHECK(blosc2_schunk_open_udio("opened", &io) == NULL && access("opened.b2lock", F_OK) != 0);
}

/* The shape of a context does not matter if another one replaces it, so its chunks may be empty. */
static void empty_chunks(void) {
  b2nd_array_t *array = numbers(true, NULL);
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  blosc2_storage storage = {.cparams = &cparams};
  int32_t chunk[2] = {1, 0}, block[2] = {1, 0};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunk, block, NULL, 0, NULL, 0);
  CHECK(ctx != NULL);
  if (ctx != NULL) {
    int64_t start[2] = {5, 0}, stop[2] = {6, 0};
    b2nd_array_t *empty = NULL, *view = NULL;
    CHECK(b2nd_get_slice(ctx, &empty, array, start, stop) == 0);
    CHECK(empty->shape[0] == 1 && empty->shape[1] == 0 && empty->nitems == 0 && empty->sc->nchunks == 0);
    CHECK(b2nd_squeeze(empty, &view) == 0 && view->ndim == 1 && view->shape[0] == 0);
    b2nd_free(view);
    b2nd_free(empty);
    b2nd_free_ctx(ctx);
  }
  /* An array without items needs no chunks. */
  int64_t none[2] = {5, 0};
  int32_t zero[2] = {0, 3};
  ctx = b2nd_create_ctx(&storage, 2, none, zero, zero, NULL, 0, NULL, 0);
  b2nd_array_t *made = NULL;
  CHECK(ctx != NULL && b2nd_zeros(ctx, &made) == 0);
  b2nd_free(made);
  b2nd_free_ctx(ctx);
  b2nd_free(array);
}

/* Contexts give codecs and filters the shape of a block of the super-chunk that their parameters name. */
static void shapes_for_contexts(void) {
  const int32_t chunk[2] = {32, 32}, block[2] = {16, 16};
  const int64_t lens[2] = {32, 32};
  static float items[1024], out[1024];
  static uint8_t bytes[sizeof(items) + BLOSC2_MAX_OVERHEAD];
  for (int n = 0; n < 1024; n++) {
    items[n] = (float)(n % 32) + (float)(n / 32);
  }
  const struct {
    uint8_t codec, codec_meta, filter, filter_meta;
    bool exact;
  } pipelines[] = {{BLOSC_LZ4, 0, BLOSC_FILTER_NDCELL, 4, true},
                   {BLOSC_LZ4, 0, BLOSC_FILTER_NDMEAN, 4, false},
                   {BLOSC_CODEC_ZFP_FIXED_ACCURACY, (uint8_t)-3, BLOSC_NOFILTER, 0, false},
                   {BLOSC_CODEC_ZFP_FIXED_RATE, 50, BLOSC_NOFILTER, 0, false}};
  for (size_t n = 0; n < 4; n++) {
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    cparams.blocksize = 16 * 16 * 4;
    blosc2_storage storage = {.contiguous = true, .cparams = &cparams};
    b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, lens, chunk, block, "<f4", 0, NULL, 0);
    b2nd_array_t *array;
    CHECK(b2nd_zeros(ctx, &array) == 0);
    b2nd_free_ctx(ctx);
    cparams.compcode = pipelines[n].codec;
    cparams.compcode_meta = pipelines[n].codec_meta;
    cparams.filters[BLOSC2_MAX_FILTERS - 1] = pipelines[n].filter;
    cparams.filters_meta[BLOSC2_MAX_FILTERS - 1] = pipelines[n].filter_meta;
    cparams.schunk = array->sc;
    blosc2_dparams dparams = BLOSC2_DPARAMS_DEFAULTS;
    dparams.schunk = array->sc;
    blosc2_context *compress = blosc2_create_cctx(cparams), *decompress = blosc2_create_dctx(dparams);
    int size = blosc2_compress_ctx(compress, items, sizeof(items), bytes, sizeof(bytes));
    CHECK(size > 0 && size < (int)sizeof(items));
    memset(out, 0, sizeof(out));
    CHECK(blosc2_decompress_ctx(decompress, bytes, size, out, sizeof(out)) == sizeof(out));
    CHECK(pipelines[n].exact ? memcmp(items, out, sizeof(items)) == 0 : out[1023] > 45 && out[1023] < 65);
    blosc2_free_ctx(compress);
    blosc2_free_ctx(decompress);
    b2nd_free(array);
  }
}

/* Bytedelta of large items survives a round trip. Its obsolete form is only read (C-Blosc2 still writes it). */
static void byte_delta(void) {
  static uint8_t items[30600], out[30600], bytes[30600 + BLOSC2_MAX_OVERHEAD];
  for (size_t n = 0; n < sizeof(items); n++) {
    items[n] = (uint8_t)(n / 700);
  }
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 300;
  cparams.filters[BLOSC2_MAX_FILTERS - 1] = BLOSC_FILTER_BYTEDELTA;
  cparams.filters_meta[BLOSC2_MAX_FILTERS - 1] = 100;
  blosc2_context *compress = blosc2_create_cctx(cparams), *decompress = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  int size = blosc2_compress_ctx(compress, items, sizeof(items), bytes, sizeof(bytes));
  CHECK(size > 0 && blosc2_decompress_ctx(decompress, bytes, size, out, sizeof(out)) == sizeof(out));
  CHECK(memcmp(items, out, sizeof(items)) == 0);
  blosc2_free_ctx(compress);
  blosc2_free_ctx(decompress);
}

/* A seventeenth vlmetalayer is refused: C-Blosc2 destroys a file that has one when it changes it. */
static void seventeenth_metalayer(void) {
  int32_t items[100] = {0};
  for (int kind = 0; kind < 4; kind++) {
    bool contiguous = kind % 2 == 1, stored = kind > 1;
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    blosc2_storage storage = {.contiguous = contiguous, .urlpath = stored ? "layers" : NULL, .cparams = &cparams};
    blosc2_schunk *schunk = blosc2_schunk_new(&storage);
    CHECK(blosc2_schunk_append_buffer(schunk, items, sizeof(items)) == 1);
    for (int n = 0; n < 17; n++) {
      char name[8];
      snprintf(name, sizeof(name), "n%d", n);
      int added = blosc2_vlmeta_add(schunk, name, (uint8_t *)name, 2, NULL);
      CHECK(added == (n < 16 || kind == 0 ? n : BLOSC2_ERROR_FAILURE));
    }
    CHECK(blosc2_vlmeta_update(schunk, "n3", (uint8_t *)"new", 3, NULL) == 3);
    uint8_t *cframe;
    bool needs_free;
    int64_t size = blosc2_schunk_to_buffer(schunk, &cframe, &needs_free);
    CHECK((size > 0) == (kind != 0));
    if (size > 0 && needs_free) {
      free(cframe);
    }
    blosc2_schunk_free(schunk);
    if (stored) {
      schunk = blosc2_schunk_open("layers");
      CHECK(blosc2_schunk_append_buffer(schunk, items, sizeof(items)) == 2);
      blosc2_schunk_free(schunk);
      schunk = blosc2_schunk_open("layers");
      CHECK(schunk != NULL && schunk->nvlmetalayers == 16 && schunk->nchunks == 2);
      blosc2_schunk_free(schunk);
      blosc2_remove_urlpath("layers");
    }
  }
}

/* Arrays that meet at the edge of a chunk are joined without recompression. */
static void joining(void) {
  for (int kind = 0; kind < 4; kind++) {
    bool contiguous = kind % 2 == 1, stored = kind > 1;
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    blosc2_storage storage = {.contiguous = contiguous, .cparams = &cparams, .urlpath = stored ? "joined" : NULL};
    b2nd_context_t *ctx = b2nd_create_ctx(&storage, 2, shape, chunkshape, blockshape, "<i4", 0, NULL, 0);
    b2nd_array_t *one = numbers(contiguous, NULL), *two, *both;
    codec = BLOSC_ZSTD;
    two = numbers(true, NULL);
    codec = BLOSC_BLOSCLZ;
    uint8_t *chunk, *moved;
    bool frees, frees_moved;
    int size = blosc2_schunk_get_chunk(two->sc, 3, &chunk, &frees);
    /* If recompressed, it would have the codec of the new array. */
    CHECK(size > 0 && b2nd_concatenate(ctx, one, two, 1, true, &both) == 0 && both->shape[1] == 16);
    CHECK(blosc2_schunk_get_chunk(both->sc, 7, &moved, &frees_moved) == size && memcmp(chunk, moved, size) == 0);
    if (frees) {
      free(chunk);
    }
    if (frees_moved) {
      free(moved);
    }
    int32_t items[96];
    CHECK(b2nd_to_cbuffer(both, items, sizeof(items)) == 0);
    bool right = true;
    for (int n = 0; n < 96; n++) {
      right = right && items[n] == n / 16 * 8 + n % 8;
    }
    CHECK(right);
    b2nd_free(both);
    b2nd_free(one);
    b2nd_free(two);
    b2nd_free_ctx(ctx);
    blosc2_remove_urlpath("joined");
  }
}

/* Chunks of uninitialised items leave the memory of the program unchanged. */
static void items_that_do_not_matter(void) {
  uint8_t chunk[BLOSC_EXTENDED_HEADER_LENGTH], bytes[4000];
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  CHECK(blosc2_chunk_uninit(cparams, sizeof(bytes), chunk, sizeof(chunk)) == BLOSC_EXTENDED_HEADER_LENGTH);
  blosc2_schunk *schunk = blosc2_schunk_new(&(blosc2_storage){.cparams = &cparams});
  CHECK(blosc2_schunk_append_chunk(schunk, chunk, true) == 1);
  blosc2_context *decompress = blosc2_create_dctx(BLOSC2_DPARAMS_DEFAULTS);
  for (int n = 0; n < 2; n++) {
    memset(bytes, 0x55, sizeof(bytes));
    int size = n == 0 ? blosc2_decompress_ctx(decompress, chunk, sizeof(chunk), bytes, sizeof(bytes))
                      : blosc2_schunk_decompress_chunk(schunk, 0, bytes, sizeof(bytes));
    CHECK(size == sizeof(bytes) && bytes[0] == 0x55 && bytes[3999] == 0x55);
  }
  CHECK(blosc2_decompress_ctx(decompress, chunk, sizeof(chunk), bytes, 3999) < 0);
  blosc2_free_ctx(decompress);
  blosc2_schunk_free(schunk);
}

/* Filling with a repeated value returns the number of chunks, and stores nothing. */
static void repeated_values(void) {
  for (int kind = 0; kind < 3; kind++) {
    blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
    cparams.typesize = 4;
    char *path = kind == 2 ? "repeated" : NULL;
    blosc2_storage storage = {.contiguous = kind > 0, .cparams = &cparams, .urlpath = path};
    blosc2_schunk *schunk = blosc2_schunk_new(&storage);
    int failed = kind == 0 ? BLOSC2_ERROR_SCHUNK_SPECIAL : BLOSC2_ERROR_FRAME_SPECIAL;
    CHECK(blosc2_schunk_fill_special(schunk, 1000, BLOSC2_SPECIAL_VALUE, 400) == failed);
    CHECK(blosc2_schunk_fill_special(schunk, 1000, 9, 400) == failed);
    CHECK(blosc2_schunk_fill_special(schunk, 1000, BLOSC2_SPECIAL_ZERO, 401) == failed);
    CHECK(blosc2_schunk_fill_special(schunk, 1000, BLOSC2_SPECIAL_ZERO, INT32_MAX - 3) == failed);
    CHECK(blosc2_schunk_fill_special(schunk, -1, BLOSC2_SPECIAL_ZERO, 400) == BLOSC2_ERROR_INVALID_PARAM);
    CHECK(blosc2_schunk_fill_special(schunk, 1000, BLOSC2_SPECIAL_ZERO, 400) == 10);
    CHECK(schunk->cbytes == (kind == 0 ? 320 : 0));
    if (kind == 1) {
      uint8_t *cframe;
      bool needs_free;
      int64_t size = blosc2_schunk_to_buffer(schunk, &cframe, &needs_free);
      blosc2_schunk *copy = blosc2_schunk_from_buffer(cframe, size, true);
      CHECK(copy->cbytes == 320);
      blosc2_schunk_free(copy);
      if (needs_free) {
        free(cframe);
      }
    }
    blosc2_schunk_free(schunk);
    if (path != NULL) {
      schunk = blosc2_schunk_open(path);
      CHECK(schunk->nchunks == 10 && schunk->cbytes == 0);
      blosc2_schunk_free(schunk);
      blosc2_remove_urlpath(path);
    }
  }
}

static void *no_file(const char *path, const char *mode, void *params) {
  return (void)path, (void)mode, params;
}
static int no_close(void *stream) {
  return stream != NULL;
}
static int64_t no_size(void *stream) {
  return stream != NULL;
}
static int64_t no_write(const void *from, int64_t size, int64_t nitems, int64_t at, void *stream) {
  return from != NULL && size > nitems && at > 0 && stream != NULL;
}
static int64_t no_read(void **to, int64_t size, int64_t nitems, int64_t at, void *stream) {
  return to != NULL && size > nitems && at > 0 && stream != NULL;
}
static int no_truncate(void *stream, int64_t size) {
  return stream != NULL && size > 0;
}

/* Functions for files may be registered again under their name. */
static void functions_again(void) {
  blosc2_io_cb functions = {.id = 231, .name = "again", .open = no_file, .close = no_close, .size = no_size, .write = no_write,
                            .read = no_read, .truncate = no_truncate, .destroy = no_close, .is_allocation_necessary = true};
  CHECK(blosc2_register_io_cb(&functions) == 0 && blosc2_register_io_cb(&functions) == 0);
  functions.name = "another";
  CHECK(blosc2_register_io_cb(&functions) == BLOSC2_ERROR_PLUGIN_IO && strcmp(blosc2_get_io_cb(231)->name, "again") == 0);
}

/* Names that headers of C-Blosc2 have. */
static void names(void) {
  CHECK(BLOSC_CODEC_HTJ2K == 40);
  uint8_t *meta;
  int size = b2nd_serialize_meta(2, shape, chunkshape, blockshape, "<i4", 0, &meta);
  int64_t lens[B2ND_MAX_DIM];
  int32_t chunk[B2ND_MAX_DIM], block[B2ND_MAX_DIM];
  int8_t ndim, format;
  char *dtype;
  CHECK(b2nd_deserialize_meta_inline(meta, size, &ndim, lens, chunk, block, &dtype, &format) == size);
  CHECK(ndim == 2 && lens[1] == 8 && chunk[0] == 4 && block[1] == 2 && strcmp(dtype, "<i4") == 0);
  CHECK(b2nd_deserialize_meta_inline(meta, 3, &ndim, lens, chunk, block, NULL, NULL) < 0);
  free(dtype);
  free(meta);
}

static int threads_now(void) {
  DIR *tasks = opendir("/proc/self/task");
  int n = 0;
  while (tasks != NULL && readdir(tasks) != NULL) {
    n++;
  }
  if (tasks != NULL) {
    closedir(tasks);
  }
  return n;
}

/* Whether the number of threads soon returns to the old one, as idle threads end. */
static bool threads_end(int before) {
  for (int n = 0; n < 3000 && threads_now() != before; n++) {
    usleep(10000);
  }
  return threads_now() == before;
}

/* Threads end with the last context that uses them, and with blosc2_destroy. */
static void threads_that_end(void) {
  static int32_t items[1 << 20], chunk[(1 << 20) + 1000];
  int before = threads_now();
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.typesize = 4;
  cparams.nthreads = 4;
  for (int n = 0; n < 1 << 20; n++) {
    items[n] = n;
  }
  blosc2_context *context = blosc2_create_cctx(cparams);
  CHECK(blosc2_compress_ctx(context, items, sizeof(items), chunk, sizeof(chunk)) > 0);
  CHECK(threads_now() > before);
  blosc2_free_ctx(context);
  CHECK(threads_end(before));
  blosc2_set_nthreads(4);
  CHECK(blosc2_compress(5, 1, 4, items, sizeof(items), chunk, sizeof(chunk)) > 0);
  CHECK(threads_now() > before);
  blosc2_destroy();
  CHECK(threads_end(before));
  blosc2_init();
}

/* A failed allocation is an error. */
static void memory_that_is_not_there(void) {
  const int32_t size = 100000000;
  char *items = calloc(size, 1);
  for (int32_t n = 0; n < size; n += 100) {
    items[n] = (char)(n / 100);
  }
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.clevel = 0;
  blosc2_schunk *schunk = blosc2_schunk_new(&(blosc2_storage){.contiguous = true, .cparams = &cparams, .urlpath = "large"});
  CHECK(blosc2_schunk_append_buffer(schunk, items, size) == 1);
  for (int lazy = 0; lazy < 2; lazy++) {
    pid_t child = fork();
    if (child == 0) {
      long pages = 0;
      FILE *statm = fopen("/proc/self/statm", "r");
      if (statm == NULL || fscanf(statm, "%ld", &pages) != 1) {
        _exit(2);
      }
      fclose(statm);
      struct rlimit limit = {pages * 4096 + size * 3 / 2, pages * 4096 + size * 3 / 2};
      uint8_t *chunk;
      bool needs_free;
      if (setrlimit(RLIMIT_AS, &limit) != 0) {
        _exit(2);
      }
      int answer = lazy ? blosc2_schunk_get_lazychunk(schunk, 0, &chunk, &needs_free)
                        : blosc2_schunk_get_chunk(schunk, 0, &chunk, &needs_free);
      /* A chunk without its blocks takes little memory. */
      _exit(answer > size || answer < 0 || (lazy && answer > 0) ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  blosc2_schunk_free(schunk);
  blosc2_remove_urlpath("large");
  free(items);
}

/* Arguments: how often a reader reads next to a writer, and `limited` if the memory of a process can be limited. */
int main(int argc, char **argv) {
  int reads = argc > 1 ? atoi(argv[1]) : 2000;
  blosc2_init();
  /* First: a child of a process with threads has lost them, which valgrind reports. */
  reading_beside_a_writer(true, reads);
  reading_beside_a_writer(false, reads);
  if (argc > 2 && strcmp(argv[2], "limited") == 0) {
    memory_that_is_not_there();
  }
  threads_that_end();
  lock_files();
  names();
  repeated_values();
  functions_again();
  items_that_do_not_matter();
  joining();
  seventeenth_metalayer();
  shapes_for_contexts();
  byte_delta();
  empty_chunks();
  saving();
  blosc2_destroy();
  return finish("drop_in");
}
