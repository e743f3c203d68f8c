/* Three-dimensional arrays of 4-byte items through the b2nd functions. One line of JSON for each operation:
 * bytes and calls of one repeat, and the time of each repeat. Every result is compared with the plain items
 * before it is timed. */
#include "peer.h"
#include <b2nd.h>
#include <pthread.h>
#include <unistd.h>

enum { PLANES = 6, BOXES = 40, ELEMENTS = 200, OPENS = 40, SETS = 20, READER_BOXES = 200, BOX = 32, ITEM = 4 };

static uint8_t *src, *dst;
static size_t nbytes;
static b2nd_array_t *array;
static int on_disk;

static void check(int rc, const char *what) {
  if (rc < 0) die(what);
}

static void use_threads(b2nd_array_t *a, int threads) {
  blosc2_dparams d = dparams();
  d.nthreads = (int16_t)threads;
  d.schunk = a->sc;
  blosc2_free_ctx(a->sc->dctx);
  a->sc->dctx = blosc2_create_dctx(d);
  a->sc->storage->cparams->nthreads = (int16_t)threads;
  a->sc->storage->cparams->schunk = a->sc;
  blosc2_free_ctx(a->sc->cctx);
  a->sc->cctx = blosc2_create_cctx(*a->sc->storage->cparams);
}

static b2nd_array_t *open_file(const char *path, int threads) {
  b2nd_array_t *a = NULL;
  check(b2nd_open(path, &a), "cannot open the array");
  if (threads > 1) use_threads(a, threads);
  return a;
}

static b2nd_array_t *create(const char *path) {
  blosc2_cparams c = cparams();
  blosc2_dparams d = dparams();
  blosc2_storage storage = {.contiguous = path != NULL, .urlpath = (char *)path, .cparams = &c, .dparams = &d};
  b2nd_context_t *ctx = b2nd_create_ctx(&storage, 3, opt.shape, opt.chunks, opt.blocks, "<f4",
                                        DTYPE_NUMPY_FORMAT, NULL, 0);
  b2nd_array_t *a = NULL;
  check(b2nd_from_cbuffer(ctx, &a, src, (int64_t)nbytes), "cannot create the array");
  b2nd_free_ctx(ctx);
  return a;
}

/* Compares a box of items with the plain ones. */
static void same(const int64_t *start, const int64_t *shape, const uint8_t *got) {
  size_t row = shape[2] * ITEM;
  for (int64_t i = 0; i < shape[0]; i++)
    for (int64_t j = 0; j < shape[1]; j++) {
      size_t at = ((start[0] + i) * opt.shape[1] + start[1] + j) * opt.shape[2] + start[2];
      if (memcmp(src + at * ITEM, got + (i * shape[1] + j) * row, row)) die("wrong items");
    }
}

static long get(b2nd_array_t *a, const int64_t *start, const int64_t *shape, uint8_t *to, int verify) {
  int64_t stop[3], size = ITEM;
  for (int k = 0; k < 3; k++) {
    stop[k] = start[k] + shape[k];
    size *= shape[k];
  }
  check(b2nd_get_slice_cbuffer(a, start, stop, to, shape, size), "cannot read a slice");
  if (verify) same(start, shape, to);
  return size;
}

/* Boxes of this shape at random places. */
static long get_boxes(b2nd_array_t *a, uint64_t seed, int n, const int64_t *shape, uint8_t *to, int verify) {
  long bytes = 0;
  for (int k = 0; k < n; k++) {
    int64_t start[3];
    for (int i = 0; i < 3; i++) start[i] = next_random(&seed) % (opt.shape[i] - shape[i] + 1);
    bytes += get(a, start, shape, to, verify);
  }
  return bytes;
}

struct reader { uint64_t seed; uint8_t *to; };

static void *read_boxes(void *p) {
  struct reader *reader = p;
  const int64_t box[3] = {BOX, BOX, BOX};
  /* Two threads must not read one array concurrently: each has its own. */
  b2nd_array_t *a = open_file(opt.path, 1);
  get_boxes(a, reader->seed, READER_BOXES, box, reader->to, 0);
  b2nd_free(a);
  return NULL;
}

static long read_from_threads(void) {
  pthread_t thread[64];
  struct reader reader[64];
  int n = opt.threads > 64 ? 64 : opt.threads;
  for (int k = 0; k < n; k++) {
    reader[k] = (struct reader){100 + k, dst + k * BOX * BOX * BOX * ITEM};
    pthread_create(&thread[k], NULL, read_boxes, &reader[k]);
  }
  for (int k = 0; k < n; k++) pthread_join(thread[k], NULL);
  return (long)n * READER_BOXES * BOX * BOX * BOX * ITEM;
}

static void copy_file(const char *from, const char *to) {
  size_t n;
  uint8_t *bytes = load(from, 0, &n);
  FILE *f = fopen(to, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) die("cannot copy the array");
  free(bytes);
}

/* Appends as many planes as there are in a chunk. The array is as before afterwards. */
static long append(struct spent *spent, int verify) {
  long n = opt.chunks[0] * opt.shape[1] * opt.shape[2] * ITEM;
  char path[4096];
  snprintf(path, sizeof path, "%s.append", opt.path ? opt.path : "");
  if (on_disk) copy_file(opt.path, path);
  struct spent start = clock_now();
  b2nd_array_t *a = on_disk ? open_file(path, opt.threads) : array;
  check(b2nd_append(a, src, n, 0), "cannot append");
  if (on_disk) b2nd_free(a);
  *spent = since(start);
  if (verify) {
    if (on_disk) a = open_file(path, 1);
    int64_t from[3] = {opt.shape[0], 0, 0}, to[3] = {opt.shape[0] + opt.chunks[0], opt.shape[1], opt.shape[2]};
    int64_t shape[3] = {opt.chunks[0], opt.shape[1], opt.shape[2]};
    check(b2nd_get_slice_cbuffer(a, from, to, dst, shape, n), "cannot read what was appended");
    if (memcmp(src, dst, n)) die("wrong items were appended");
    if (on_disk) b2nd_free(a);
  }
  if (on_disk) unlink(path);
  else check(b2nd_resize(array, opt.shape, NULL), "cannot resize");
  return n;
}

/* Sets boxes at random places: parts of chunks. */
static long set_boxes(struct spent *spent, int verify) {
  const int64_t box[3] = {BOX, BOX, BOX}, size = (int64_t)BOX * BOX * BOX * ITEM;
  char path[4096];
  snprintf(path, sizeof path, "%s.set", opt.path ? opt.path : "");
  if (on_disk) copy_file(opt.path, path);
  uint64_t seed = 21;
  struct spent start = clock_now();
  b2nd_array_t *a = on_disk ? open_file(path, opt.threads) : array;
  int64_t from[3], to[3];
  for (int k = 0; k < SETS; k++) {
    for (int i = 0; i < 3; i++) {
      from[i] = next_random(&seed) % (opt.shape[i] - BOX + 1);
      to[i] = from[i] + BOX;
    }
    check(b2nd_set_slice_cbuffer(src + k * size, box, size, from, to, a), "cannot set a box");
  }
  if (on_disk) b2nd_free(a);
  *spent = since(start);
  if (verify) {
    if (on_disk) a = open_file(path, 1);
    check(b2nd_get_slice_cbuffer(a, from, to, dst, box, size), "cannot read what was set");
    if (memcmp(src + (SETS - 1) * size, dst, size)) die("wrong items were set");
    if (on_disk) b2nd_free(a);
  }
  if (on_disk) unlink(path);
  return SETS * size;
}

static long run_op(const char *op, struct spent *spent, int verify) {
  const int64_t origin[3] = {0}, box[3] = {BOX, BOX, BOX}, one[3] = {1, 1, 1};
  long bytes = 0;
  if (!strcmp(op, "append")) return append(spent, verify);
  if (!strcmp(op, "set")) return set_boxes(spent, verify);
  if (!strcmp(op, "write")) {
    if (array) b2nd_free(array);
    if (on_disk) unlink(opt.path);
    struct spent start = clock_now();
    array = create(on_disk ? opt.path : NULL);
    if (on_disk) b2nd_free(array);
    *spent = since(start);
    if (on_disk) array = open_file(opt.path, opt.threads);
    return (long)nbytes;
  }
  struct spent start = clock_now();
  if (!strcmp(op, "read")) bytes = get(array, origin, opt.shape, dst, verify);
  else if (!strncmp(op, "plane", 5)) {
    int64_t shape[3] = {opt.shape[0], opt.shape[1], opt.shape[2]};
    shape[op[5] - '0'] = 1;
    bytes = get_boxes(array, 11 + op[5] - '0', PLANES, shape, dst, verify);
  } else if (!strcmp(op, "box")) bytes = get_boxes(array, 9, BOXES, box, dst, verify);
  else if (!strcmp(op, "element")) bytes = get_boxes(array, 5, ELEMENTS, one, dst, verify);
  else if (!strcmp(op, "open"))
    for (int k = 0; k < OPENS; k++) {
      b2nd_array_t *a = open_file(opt.path, 1);
      bytes += get_boxes(a, 50 + k, 1, one, dst, verify);
      b2nd_free(a);
    }
  else if (!strcmp(op, "readers")) bytes = read_from_threads();
  else die(op);
  *spent = since(start);
  return bytes;
}

static long calls_of(const char *op) {
  return !strncmp(op, "plane", 5) ? PLANES : !strcmp(op, "box") ? BOXES : !strcmp(op, "element") ? ELEMENTS
         : !strcmp(op, "open") ? OPENS : !strcmp(op, "set") ? SETS : !strcmp(op, "readers") ? READER_BOXES * opt.threads : 1;
}

static long status_kib(const char *key) {
  char line[256];
  long kib = -1;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, key, strlen(key))) kib = atol(line + strlen(key) + 1);
  if (f) fclose(f);
  return kib;
}

/* Peak memory that an operation adds to what was in use before. */
static void scratch(const char *op) {
  struct spent spent;
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (f) { fputs("5", f); fclose(f); }
  long before = status_kib("VmRSS");
  run_op(op, &spent, 0);
  printf("{\"op\":\"scratch-%s\",\"kib\":%ld}\n", op, status_kib("VmHWM") - before);
}

void run_nd(void) {
  opt.typesize = ITEM;
  on_disk = !strcmp(opt.storage, "disk");
  src = load(opt.input, 0, &nbytes);
  if (nbytes != (size_t)(opt.shape[0] * opt.shape[1] * opt.shape[2] * ITEM)) die("the shape is not that of the input");
  dst = ready(nbytes);
  if (on_disk && !access(opt.path, F_OK)) array = open_file(opt.path, opt.threads);
  struct spent *times = malloc(sizeof *times * (opt.repeat + 1));
  char *list = strdup(opt.ops), *save = NULL;
  for (char *op = strtok_r(list, ",", &save); op; op = strtok_r(NULL, ",", &save)) {
    if (!strncmp(op, "scratch-", 8)) { scratch(op + 8); continue; }
    if (!array && strcmp(op, "write")) die("the array is not written yet");
    int n = 0;
    double total = 0;
    long bytes = run_op(op, &times[0], 1);
    while (n < opt.repeat && (n == 0 || total < opt.budget)) {
      run_op(op, &times[n], 0);
      total += times[n++].wall;
    }
    struct spent least = times[0];
    for (int i = 1; i < n; i++) {
      if (times[i].wall < least.wall) least.wall = times[i].wall;
      if (times[i].cpu < least.cpu) least.cpu = times[i].cpu;
    }
    printf("{\"op\":\"%s\",\"nbytes\":%zu,\"bytes_per_rep\":%ld,\"calls\":%ld,\"cbytes\":%ld,\"min_s\":%.9f,\"cpu_min_s\":%.9f}\n",
           op, nbytes, bytes, calls_of(op), (long)array->sc->cbytes, least.wall, least.cpu);
    fflush(stdout);
  }
  if (array) b2nd_free(array);
}
