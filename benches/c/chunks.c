/* Chunks: the operations of `b2kit bench --input`, and memcpy; and files of chunks that the other side reads.
 *
 * A file of chunks is, for each chunk, its size (4 bytes, little-endian) and its bytes. */
#include "peer.h"
#include <pthread.h>

static uint8_t *src, *dst, **cbuf;
static size_t nbytes;
static long nchunks, *csize, cbytes;
static int32_t used_block;

static long length(long i) { return i == nchunks - 1 ? (long)nbytes - i * opt.chunk : opt.chunk; }

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void emit(const char *op, struct spent *times, int n, long bytes_per_rep, long calls) {
  double *sorted = malloc(sizeof(double) * n), cpu = times[0].cpu;
  for (int i = 0; i < n; i++) {
    sorted[i] = times[i].wall;
    if (times[i].cpu < cpu) cpu = times[i].cpu;
  }
  qsort(sorted, n, sizeof(double), by_value);
  printf("{\"impl\":\"c-blosc2\",\"version\":\"%s\",\"op\":\"%s\",\"input\":\"%s\",\"codec\":\"%s\",\"clevel\":%d,"
         "\"filter\":\"%s\",\"typesize\":%d,\"threads\":%d,\"chunk\":%ld,\"blocksize\":%d,\"nbytes\":%zu,"
         "\"cbytes\":%ld,\"bytes_per_rep\":%ld,\"calls\":%ld,\"repeat\":%d,\"median_s\":%.9f,\"min_s\":%.9f,"
         "\"cpu_min_s\":%.9f,\"seconds\":[",
         blosc2_get_version_string(), op, base_name(opt.input), opt.codec, opt.clevel, opt.filter, opt.typesize,
         opt.threads, opt.chunk, used_block, nbytes, cbytes, bytes_per_rep, calls, n,
         (sorted[(n - 1) / 2] + sorted[n / 2]) / 2, sorted[0], cpu);
  for (int i = 0; i < n; i++) printf("%s%.9f", i ? "," : "", times[i].wall);
  printf("]}\n");
  fflush(stdout);
  free(sorted);
}

static void compress_all(blosc2_context *c) {
  cbytes = 0;
  for (long i = 0; i < nchunks; i++) {
    int n = blosc2_compress_ctx(c, src + i * opt.chunk, (int32_t)length(i), cbuf[i],
                                (int32_t)(length(i) + BLOSC2_MAX_OVERHEAD));
    if (n <= 0) die("compression failed");
    csize[i] = n;
    cbytes += n;
  }
}

static void decompress_all(blosc2_context *d, int reuse) {
  for (long i = 0; i < nchunks; i++) {
    uint8_t *to = reuse ? dst : dst + i * opt.chunk;
    if (blosc2_decompress_ctx(d, cbuf[i], (int32_t)csize[i], to, (int32_t)length(i)) != length(i))
      die("decompression failed");
  }
}

/* Items [start, start + n) of a chunk. */
static int get(blosc2_context *d, long i, long start, long n) {
  int got = blosc2_getitem_ctx(d, cbuf[i], (int32_t)csize[i], (int)start, (int)n, dst, (int32_t)(n * opt.typesize));
  if (got < 0) die("getitem failed");
  return got;
}

/* Whether getitem gives wrong bytes; says so. */
static int wrong_items(blosc2_context *d, const char *op) {
  uint64_t random = 7;
  for (int k = 0; k < 64; k++) {
    long i = next_random(&random) % nchunks, items = length(i) / opt.typesize;
    long start = next_random(&random) % items, n = start + 3 > items ? items - start : 3;
    get(d, i, start, n);
    if (memcmp(dst, src + i * opt.chunk + start * opt.typesize, n * opt.typesize)) {
      printf("{\"impl\":\"c-blosc2\",\"op\":\"%s\",\"error\":\"wrong bytes (chunk %ld item %ld)\"}\n", op, i, start);
      fflush(stdout);
      return 1;
    }
  }
  return 0;
}

static struct spent get_random(blosc2_context *d, long calls, long per, int aligned, long *bytes) {
  uint64_t random = 42;
  long done = 0;
  struct spent start = clock_now();
  for (long k = 0; k < calls; k++) {
    long i = next_random(&random) % nchunks, items = length(i) / opt.typesize;
    long at = next_random(&random) % items;
    if (aligned) at -= at % per;
    *bytes += get(d, i, at, at + per > items ? items - at : per);
    done++;
    if (k % 256 == 255 && since(start).wall > opt.budget) break;
  }
  struct spent s = since(start);
  s.wall *= (double)calls / done;
  s.cpu *= (double)calls / done;
  return s;
}

struct part { uint8_t *to, *from; size_t n; };

static void *copy_part(void *p) {
  struct part *part = p;
  memcpy(part->to, part->from, part->n);
  return NULL;
}

static struct spent copy_all(void) {
  pthread_t thread[64];
  struct part part[64];
  int n = opt.threads > 64 ? 64 : opt.threads;
  struct spent start = clock_now();
  for (int k = 0; k < n; k++) {
    size_t each = nbytes / n;
    part[k] = (struct part){dst + k * each, src + k * each, each};
    if (k) pthread_create(&thread[k], NULL, copy_part, &part[k]);
  }
  copy_part(&part[0]);
  for (int k = 1; k < n; k++) pthread_join(thread[k], NULL);
  return since(start);
}

static void set_up(void) {
  src = load(opt.input, opt.limit, &nbytes);
  nbytes -= nbytes % opt.typesize;
  opt.chunk -= opt.chunk % opt.typesize;
  if (!nbytes || opt.chunk <= 0) die("nothing to measure on");
  dst = ready(nbytes);
  nchunks = (nbytes + opt.chunk - 1) / opt.chunk;
  cbuf = malloc(sizeof *cbuf * nchunks);
  csize = malloc(sizeof *csize * nchunks);
  for (long i = 0; i < nchunks; i++) cbuf[i] = ready(length(i) + BLOSC2_MAX_OVERHEAD);
}

void run_bench(void) {
  set_up();
  int lossy = !strcmp(opt.filter, "truncprec+shuffle");
  blosc2_context *c = blosc2_create_cctx(cparams()), *d = blosc2_create_dctx(dparams());
  if (!c || !d) die("no context");
  struct spent *times = malloc(sizeof *times * (opt.repeat + 1));
  char *list = strdup(opt.ops), *save = NULL;
  int32_t a, b;
  compress_all(c);
  blosc2_cbuffer_sizes(cbuf[0], &a, &b, &used_block);
  decompress_all(d, 0);
  if (!lossy && memcmp(src, dst, nbytes)) die("the round trip gives other bytes");
  for (char *op = strtok_r(list, ",", &save); op; op = strtok_r(NULL, ",", &save)) {
    int aligned = !strcmp(op, "getitem-block"), items = aligned || !strcmp(op, "getitem"), n = 0;
    long per = aligned ? used_block / opt.typesize : opt.nitems, calls = aligned ? opt.calls / 20 : opt.calls;
    long bytes = 0;
    double total = 0;
    if (items && !lossy && wrong_items(d, op)) continue;
    while (n < opt.repeat && (n == 0 || total < opt.budget)) {
      struct spent start = clock_now();
      if (!strcmp(op, "compress")) { compress_all(c); times[n] = since(start); }
      else if (!strcmp(op, "decompress")) { decompress_all(d, opt.reuse_dest); times[n] = since(start); }
      else if (!strcmp(op, "memcpy")) times[n] = copy_all();
      else if (items) times[n] = get_random(d, calls, per, aligned, &bytes);
      else die(op);
      total += times[n++].wall;
    }
    emit(op, times, n, items ? bytes / n : (long)nbytes, items ? calls : nchunks);
  }
}

void run_encode(void) {
  set_up();
  blosc2_context *c = blosc2_create_cctx(cparams());
  compress_all(c);
  FILE *f = fopen(opt.path, "wb");
  if (!f) die("cannot create the file of chunks");
  for (long i = 0; i < nchunks; i++) {
    uint8_t n[4] = {csize[i] & 255, csize[i] >> 8 & 255, csize[i] >> 16 & 255, csize[i] >> 24 & 255};
    if (fwrite(n, 1, 4, f) != 4 || fwrite(cbuf[i], 1, csize[i], f) != (size_t)csize[i]) die("writing failed");
  }
  if (fclose(f)) die("writing failed");
}

void run_decode(void) {
  size_t have, at = 0, done = 0;
  src = load(opt.input, opt.limit, &nbytes);
  nbytes -= nbytes % opt.typesize;
  dst = ready(nbytes);
  uint8_t *file = load(opt.path, 0, &have);
  blosc2_context *d = blosc2_create_dctx(dparams());
  while (at + 4 <= have) {
    uint32_t n = file[at] | file[at + 1] << 8 | file[at + 2] << 16 | (uint32_t)file[at + 3] << 24;
    at += 4;
    if (n > have - at) die("the file of chunks is cut off");
    int got = blosc2_decompress_ctx(d, file + at, (int32_t)n, dst + done, (int32_t)(nbytes - done));
    if (got <= 0) die("decompression failed");
    done += got;
    at += n;
  }
  if (done != nbytes || memcmp(src, dst, nbytes)) die("the chunks hold other bytes");
}
