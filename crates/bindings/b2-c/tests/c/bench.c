/* Speed of two libraries in one process: alternating rounds, the median of the ratios. Arguments: both libraries. */
#define _GNU_SOURCE
#include "two.h"

#include <math.h>
#include <time.h>

#define ROUNDS 7
/* This many different small chunks. */
#define MANY 64

/* CPU time of this thread in seconds, which other load disturbs less. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int order(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static double median(double *values) {
  qsort(values, ROUNDS, sizeof(double), order);
  return values[ROUNDS / 2];
}

static float *data;
static uint8_t *chunks[2], *back;

/* Sums of the logarithms of the ratios, and how many. */
static double sums[2];
static int ncells;

/* Prints how much faster the first library is, for this many different chunks in alternation. Sizes in bytes. A processor learns the
 * branches of a single small chunk, which does not happen in programs with many chunks. */
static void cell(const library *libs, int codec, int level, int filter, int32_t size, int nchunks) {
  blosc2_cparams cparams = BLOSC2_CPARAMS_DEFAULTS;
  cparams.compcode = (uint8_t)codec;
  cparams.clevel = (uint8_t)level;
  cparams.typesize = 4;
  cparams.filters[5] = (uint8_t)filter;
  double compress[ROUNDS], decompress[ROUNDS], cbytes[2] = {0, 0};
  blosc2_context *cctx[2], *dctx[2];
  int32_t sizes[MANY], room = size + 32;
  for (int lib = 0; lib < 2; lib++) {
    cctx[lib] = libs[lib].create_cctx(cparams);
    dctx[lib] = libs[lib].create_dctx(BLOSC2_DPARAMS_DEFAULTS);
    for (int k = 0; k < nchunks; k++) {
      sizes[k] = libs[lib].compress_ctx(cctx[lib], data + k * (size / 4), size, chunks[lib] + k * room, room);
      cbytes[lib] += sizes[k];
    }
  }
  int times[2];
  for (int what = 0; what < 2; what++) {
    double started = now();
    for (int k = 0; k < nchunks; k++) {
      if (what == 0) {
        libs[1].compress_ctx(cctx[1], data + k * (size / 4), size, chunks[1] + k * room, room);
      } else {
        libs[1].decompress_ctx(dctx[1], chunks[1] + k * room, sizes[k], back, size);
      }
    }
    times[what] = (int)(0.004 / (now() - started + 1e-7)) + 1;
  }
  for (int round = 0; round < ROUNDS; round++) {
    double spent[2], read[2];
    for (int turn = 0; turn < 2; turn++) {
      int lib = (turn + round) % 2;
      double started = now();
      for (int n = 0; n < times[0]; n++) {
        for (int k = 0; k < nchunks; k++) {
          libs[lib].compress_ctx(cctx[lib], data + k * (size / 4), size, chunks[lib] + k * room, room);
        }
      }
      spent[lib] = now() - started;
    }
    /* Both read the chunks of the second library. */
    for (int turn = 0; turn < 2; turn++) {
      int lib = (turn + round) % 2;
      double started = now();
      for (int n = 0; n < times[1]; n++) {
        for (int k = 0; k < nchunks; k++) {
          libs[lib].decompress_ctx(dctx[lib], chunks[1] + k * room, sizes[k], back, size);
        }
      }
      read[lib] = now() - started;
    }
    compress[round] = spent[1] / spent[0];
    decompress[round] = read[1] / read[0];
  }
  const char *codecs[] = {"blosclz", "lz4", "lz4hc", "", "zlib", "zstd"}, *filters[] = {"none", "shuffle", "bitshuffle"};
  sums[0] += log(median(compress));
  sums[1] += log(median(decompress));
  ncells++;
  printf("%-8s level %d %-10s %2d of %7d bytes: compress %.2f, decompress %.2f, size %.3f\n", codecs[codec], level,
         filters[filter], nchunks, size, median(compress), median(decompress), cbytes[0] / cbytes[1]);
  for (int lib = 0; lib < 2; lib++) {
    libs[lib].free_ctx(cctx[lib]);
    libs[lib].free_ctx(dctx[lib]);
  }
}

/* Prints the geometric means since the last call. */
static void means(const char *what) {
  printf("%s: %d cells, geometric mean: compress %.2f, decompress %.2f\n", what, ncells, exp(sums[0] / ncells),
         exp(sums[1] / ncells));
  sums[0] = sums[1] = 0;
  ncells = 0;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    return 2;
  }
  library libs[2] = {load(argv[1]), load(argv[2])};
  const int32_t large = 2 << 20;
  data = malloc((size_t)large);
  back = malloc((size_t)large);
  for (int lib = 0; lib < 2; lib++) {
    chunks[lib] = malloc((size_t)large + 32);
  }
  uint32_t state = 1;
  float value = 0;
  for (int n = 0; n < large / 4; n++) {
    state = state * 1664525 + 1013904223;
    value += (float)((int)(state >> 24) - 128) / 1000;
    data[n] = (float)(int)(value * 100) / 100;
  }
  printf("times of C-Blosc2 divided by ours, median of %d rounds: above 1 ours is faster\n", ROUNDS);
  const int codecs[] = {0, 1, 5, 4}, levels[] = {1, 5, 9};
  for (int n = 0; n < 4; n++) {
    for (int filter = 0; filter < 3; filter++) {
      for (int level = 0; level < 3; level++) {
        cell(libs, codecs[n], levels[level], filter, large, 1);
      }
    }
  }
  means("large chunks");
  for (int nchunks = 1; nchunks <= MANY; nchunks += MANY - 1) {
    for (int32_t size = 1024; size <= 16384; size *= 2) {
      for (int n = 0; n < 3; n++) {
        cell(libs, codecs[n], 5, 1, size, nchunks);
      }
    }
    means(nchunks == 1 ? "one small chunk again and again" : "many small chunks by turns");
  }
  return 0;
}
