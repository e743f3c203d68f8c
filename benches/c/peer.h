/* The C side of `bench.py`: times libblosc2 in the same way as the Rust programs time this project. */
#ifndef PEER_H
#define PEER_H
#define _GNU_SOURCE
#include <blosc2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spent { double wall, cpu; };

/* Options of the command line, with their defaults. */
struct options {
  const char *input, *codec, *filter, *ops, *path, *storage;
  int typesize, clevel, threads, repeat, truncbits, reuse_dest;
  long chunk, blocksize, limit, nitems, calls;
  double budget;
  int64_t shape[3];
  int32_t chunks[3], blocks[3];
};
extern struct options opt;

void die(const char *message);
struct spent clock_now(void);
struct spent since(struct spent start);
/* Page-aligned, and every page touched. */
void *ready(size_t n);
/* The first `limit` bytes of a file (0: all of it). */
uint8_t *load(const char *path, size_t limit, size_t *n);
/* SplitMix64. */
uint64_t next_random(uint64_t *state);
/* Compression parameters from the options. */
blosc2_cparams cparams(void);
blosc2_dparams dparams(void);
const char *base_name(const char *path);

void run_bench(void);  /* operations on chunks: the contract of `b2kit bench --input` */
void run_encode(void); /* compresses into a file of chunks */
void run_decode(void); /* and back, comparing with the input */
void run_nd(void);     /* operations on an array */
#endif
