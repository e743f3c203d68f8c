/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files through FILE *, and files mapped into memory: the functions behind BLOSC2_IO_FILESYSTEM and
 * BLOSC2_IO_FILESYSTEM_MMAP, for programs that build their own on them.
 */
#ifndef BLOSC_BLOSC2_BLOSC2_STDIO_H
#define BLOSC_BLOSC2_BLOSC2_STDIO_H

#include "blosc2-export.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. */
typedef struct {
  FILE *file;
} blosc2_stdio_file;

/* Parameters for files: whether each change takes the lock file next to the file. */
typedef struct {
  bool locking;
} blosc2_stdio_params;

static const blosc2_stdio_params BLOSC2_STDIO_PARAMS_DEFAULTS = {false};

/* Opens a file as fopen does. The result is freed by blosc2_stdio_close; NULL after an error. */
BLOSC_EXPORT void *blosc2_stdio_open(const char *urlpath, const char *mode, void *params);
/* Closes it. Returns 0, or a negative number. */
BLOSC_EXPORT int blosc2_stdio_close(void *stream);
/* Returns its size in bytes, or a negative number. */
BLOSC_EXPORT int64_t blosc2_stdio_size(void *stream);
/* Writes nitems items of size bytes at a position in bytes. Returns the number written, 0 for wrong sizes. */
BLOSC_EXPORT int64_t blosc2_stdio_write(const void *ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
/* Reads items at a position into the memory at *ptr. Returns the number read. */
BLOSC_EXPORT int64_t blosc2_stdio_read(void **ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
/* Sets its size in bytes. Returns 0, or a negative number. */
BLOSC_EXPORT int blosc2_stdio_truncate(void *stream, int64_t size);
/* Ends the use of the parameters: does nothing, returns 0. */
BLOSC_EXPORT int blosc2_stdio_destroy(void *params);

/* A file mapped into memory. A program sets the first three fields; the others describe the mapping. */
typedef struct {
  /* "r": read. "r+": change. "w+": create. "c": private changes. */
  const char *mode;
  /* Initial size of the mapping in bytes, if the file may grow. */
  size_t initial_mapping_size;
  /* Whether blosc2_stdio_mmap_destroy frees this structure. */
  bool needs_free;
  char *addr;
  char *urlpath;
  size_t file_size;
  size_t mapping_size;
  bool is_memory_only;
  FILE *file;
  int fd;
  int64_t access_flags;
  int64_t map_flags;
} blosc2_stdio_mmap;

static const blosc2_stdio_mmap BLOSC2_STDIO_MMAP_DEFAULTS = {
    "r", (size_t)1 << 30, false, NULL, NULL, 0, 0, false, NULL, -1, -1, -1};

/* Maps a file. `params` is a blosc2_stdio_mmap, which is the result as well. Its mode counts, not that of the call. */
BLOSC_EXPORT void *blosc2_stdio_mmap_open(const char *urlpath, const char *mode, void *params);
/* Does nothing: the file stays mapped. Returns 0. */
BLOSC_EXPORT int blosc2_stdio_mmap_close(void *stream);
/* Returns the size of the file in bytes. */
BLOSC_EXPORT int64_t blosc2_stdio_mmap_size(void *stream);
/* As blosc2_stdio_write. */
BLOSC_EXPORT int64_t blosc2_stdio_mmap_write(
    const void *ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
/* Sets *ptr to the address of the items. Returns their number: nitems, or 0 and NULL. */
BLOSC_EXPORT int64_t blosc2_stdio_mmap_read(void **ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
/* Sets the size of the file in bytes. Returns 0, or a negative number. */
BLOSC_EXPORT int blosc2_stdio_mmap_truncate(void *stream, int64_t size);
/* Ends the mapping. Returns 0, or a negative number. */
BLOSC_EXPORT int blosc2_stdio_mmap_destroy(void *params);

#ifdef __cplusplus
}
#endif

#endif
