/* Command line and helpers. Built by `bench.py` against the headers and the library of the wheel. */
#include "peer.h"
#include <sys/stat.h>
#include <time.h>

struct options opt = {
    .codec = "blosclz", .filter = "shuffle", .ops = "compress,decompress", .storage = "memory",
    .typesize = 1, .clevel = 5, .threads = 1, .repeat = 5,
    .chunk = 4 << 20, .nitems = 1, .calls = 20000, .budget = 1e9,
};

void die(const char *message) {
  fprintf(stderr, "peer: %s\n", message);
  exit(2);
}

static double seconds(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

struct spent clock_now(void) {
  struct spent s;
  s.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  s.wall = seconds(CLOCK_MONOTONIC);
  return s;
}

struct spent since(struct spent start) {
  struct spent s;
  s.wall = seconds(CLOCK_MONOTONIC) - start.wall;
  s.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - start.cpu;
  return s;
}

void *ready(size_t n) {
  void *p = NULL;
  if (posix_memalign(&p, 4096, n ? n : 1)) die("out of memory");
  memset(p, 1, n);
  return p;
}

uint8_t *load(const char *path, size_t limit, size_t *n) {
  struct stat st;
  FILE *f = path ? fopen(path, "rb") : NULL;
  if (!f || fstat(fileno(f), &st)) die("cannot open the input");
  *n = limit && limit < (size_t)st.st_size ? limit : (size_t)st.st_size;
  uint8_t *p = ready(*n);
  if (fread(p, 1, *n, f) != *n) die("short read");
  fclose(f);
  return p;
}

uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

blosc2_cparams cparams(void) {
  blosc2_cparams c = BLOSC2_CPARAMS_DEFAULTS;
  int code = blosc2_compname_to_compcode(opt.codec);
  if (code < 0) die("unknown codec");
  c.compcode = (uint8_t)code;
  c.clevel = (uint8_t)opt.clevel;
  c.typesize = opt.typesize;
  c.nthreads = (int16_t)opt.threads;
  c.blocksize = (int32_t)opt.blocksize;
  c.splitmode = BLOSC_FORWARD_COMPAT_SPLIT;
  memset(c.filters, 0, sizeof c.filters);
  memset(c.filters_meta, 0, sizeof c.filters_meta);
  int last = BLOSC2_MAX_FILTERS - 1;
  if (!strcmp(opt.filter, "nofilter")) {
  } else if (!strcmp(opt.filter, "shuffle")) {
    c.filters[last] = BLOSC_SHUFFLE;
  } else if (!strcmp(opt.filter, "bitshuffle")) {
    c.filters[last] = BLOSC_BITSHUFFLE;
  } else if (!strcmp(opt.filter, "delta+shuffle")) {
    c.filters[last - 1] = BLOSC_DELTA;
    c.filters[last] = BLOSC_SHUFFLE;
  } else if (!strcmp(opt.filter, "truncprec+shuffle")) {
    c.filters[last - 1] = BLOSC_TRUNC_PREC;
    c.filters_meta[last - 1] = (uint8_t)(opt.truncbits ? opt.truncbits : opt.typesize == 8 ? 20 : 10);
    c.filters[last] = BLOSC_SHUFFLE;
  } else {
    die("unknown filter");
  }
  return c;
}

blosc2_dparams dparams(void) {
  blosc2_dparams d = BLOSC2_DPARAMS_DEFAULTS;
  d.nthreads = (int16_t)opt.threads;
  return d;
}

const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int main(int argc, char **argv) {
  if (argc < 2 || argc % 2) die("usage: peer bench|encode|decode|nd|version --option value ...");
  for (int i = 2; i + 1 < argc; i += 2) {
    const char *k = argv[i], *v = argv[i + 1];
    if (!strcmp(k, "--input")) opt.input = v;
    else if (!strcmp(k, "--codec")) opt.codec = v;
    else if (!strcmp(k, "--filter")) opt.filter = v;
    else if (!strcmp(k, "--op")) opt.ops = v;
    else if (!strcmp(k, "--path")) opt.path = v;
    else if (!strcmp(k, "--storage")) opt.storage = v;
    else if (!strcmp(k, "--typesize")) opt.typesize = atoi(v);
    else if (!strcmp(k, "--clevel")) opt.clevel = atoi(v);
    else if (!strcmp(k, "--threads")) opt.threads = atoi(v);
    else if (!strcmp(k, "--repeat")) opt.repeat = atoi(v);
    else if (!strcmp(k, "--truncbits")) opt.truncbits = atoi(v);
    else if (!strcmp(k, "--chunk")) opt.chunk = atol(v);
    else if (!strcmp(k, "--blocksize")) opt.blocksize = atol(v);
    else if (!strcmp(k, "--limit")) opt.limit = atol(v);
    else if (!strcmp(k, "--nitems")) opt.nitems = atol(v);
    else if (!strcmp(k, "--calls")) opt.calls = atol(v);
    else if (!strcmp(k, "--budget")) opt.budget = atof(v);
    else if (!strcmp(k, "--dest")) opt.reuse_dest = !strcmp(v, "reuse");
    else if (!strcmp(k, "--shape")) {
      if (sscanf(v, "%ld,%ld,%ld", &opt.shape[0], &opt.shape[1], &opt.shape[2]) != 3) die(k);
    } else if (!strcmp(k, "--chunks")) {
      if (sscanf(v, "%d,%d,%d", &opt.chunks[0], &opt.chunks[1], &opt.chunks[2]) != 3) die(k);
    } else if (!strcmp(k, "--blocks")) {
      if (sscanf(v, "%d,%d,%d", &opt.blocks[0], &opt.blocks[1], &opt.blocks[2]) != 3) die(k);
    } else die(k);
  }
  blosc2_init();
  const char *what = argv[1];
  if (!strcmp(what, "bench")) run_bench();
  else if (!strcmp(what, "encode")) run_encode();
  else if (!strcmp(what, "decode")) run_decode();
  else if (!strcmp(what, "nd")) run_nd();
  else if (!strcmp(what, "version")) puts(blosc2_get_version_string());
  else die(what);
  return 0;
}
