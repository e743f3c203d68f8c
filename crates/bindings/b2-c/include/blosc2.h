/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface of b2kit's libblosc2. Programs that were written for C-Blosc2 3.3 compile with this header.
 *
 * Functions that return an int or int64_t return a negative number, one of BLOSC2_ERROR_..., after an error; those that
 * return a pointer return NULL. Memory that the caller must free is from malloc. Sizes are in bytes.
 */
#ifndef BLOSC_BLOSC2_H
#define BLOSC_BLOSC2_H

#include "blosc2/blosc2-export.h"
#include "blosc2/blosc2-common.h"
#include "blosc2/blosc2-stdio.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of C-Blosc2 that has this interface. */
#define BLOSC2_VERSION_MAJOR 3
#define BLOSC2_VERSION_MINOR 3
#define BLOSC2_VERSION_RELEASE 5
#define BLOSC2_VERSION_STRING "3.3.5"
#define BLOSC2_VERSION_DATE "$Date:: 2026-09-24 #$"

/* Names of Blosc 1, for programs that were written for it. */
#ifdef BLOSC1_COMPAT
#define BLOSC_VERSION_MAJOR BLOSC2_VERSION_MAJOR
#define BLOSC_VERSION_MINOR BLOSC2_VERSION_MINOR
#define BLOSC_VERSION_RELEASE BLOSC2_VERSION_RELEASE
#define BLOSC_VERSION_STRING BLOSC2_VERSION_STRING
#define BLOSC_VERSION_DATE BLOSC2_VERSION_DATE
#define BLOSC_MAX_OVERHEAD BLOSC2_MAX_OVERHEAD
#define BLOSC_MAX_BUFFERSIZE BLOSC2_MAX_BUFFERSIZE
#define blosc_compress blosc1_compress
#define blosc_decompress blosc1_decompress
#define blosc_getitem blosc1_getitem
#define blosc_get_compressor blosc1_get_compressor
#define blosc_set_compressor blosc1_set_compressor
#define blosc_cbuffer_sizes blosc1_cbuffer_sizes
#define blosc_cbuffer_validate blosc1_cbuffer_validate
#define blosc_cbuffer_metainfo blosc1_cbuffer_metainfo
#define blosc_get_blocksize blosc1_get_blocksize
#define blosc_set_blocksize blosc1_set_blocksize
#define blosc_set_splitmode blosc1_set_splitmode
#define blosc_init blosc2_init
#define blosc_destroy blosc2_destroy
#define blosc_free_resources blosc2_free_resources
#define blosc_get_nthreads blosc2_get_nthreads
#define blosc_set_nthreads blosc2_set_nthreads
#define blosc_compcode_to_compname blosc2_compcode_to_compname
#define blosc_compname_to_compcode blosc2_compname_to_compcode
#define blosc_list_compressors blosc2_list_compressors
#define blosc_get_version_string blosc2_get_version_string
#define blosc_get_complib_info blosc2_get_complib_info
#define blosc_cbuffer_versions blosc2_cbuffer_versions
#define blosc_cbuffer_complib blosc2_cbuffer_complib
#endif

/* Messages on standard error if the variable BLOSC_TRACE is set. */
#define BLOSC_TRACE(cat, msg, ...)                                                                             \
  do {                                                                                                         \
    if (getenv("BLOSC_TRACE") != NULL) {                                                                       \
      fprintf(stderr, "[%s] - " msg " (%s:%d)\n", #cat, ##__VA_ARGS__, __FILE__, __LINE__);                    \
    }                                                                                                          \
  } while (0)
#define BLOSC_TRACE_ERROR(msg, ...) BLOSC_TRACE(error, msg, ##__VA_ARGS__)
#define BLOSC_TRACE_WARNING(msg, ...) BLOSC_TRACE(warning, msg, ##__VA_ARGS__)
#define BLOSC_TRACE_INFO(msg, ...) BLOSC_TRACE(info, msg, ##__VA_ARGS__)

/* The same if BLOSC_INFO is set. */
#define BLOSC_INFO(msg, ...)                                                                                   \
  do {                                                                                                         \
    if (getenv("BLOSC_INFO") != NULL) {                                                                        \
      fprintf(stderr, "[INFO] - " msg "\n", ##__VA_ARGS__);                                                    \
    }                                                                                                          \
  } while (0)

/* Returns `rc` from the calling function if a pointer is NULL. */
#define BLOSC_ERROR_NULL(pointer, rc)                                                                          \
  do {                                                                                                         \
    if ((pointer) == NULL) {                                                                                   \
      BLOSC_TRACE_ERROR("Pointer is null");                                                                    \
      return (rc);                                                                                             \
    }                                                                                                          \
  } while (0)

/* Returns an error code from the calling function. */
#define BLOSC_ERROR(rc)                                                                                        \
  do {                                                                                                         \
    int rc_ = (rc);                                                                                            \
    if (rc_ < BLOSC2_ERROR_SUCCESS) {                                                                          \
      BLOSC_TRACE_ERROR("%s", print_error(rc_));                                                               \
      return rc_;                                                                                              \
    }                                                                                                          \
  } while (0)

/* Versions of the format of chunks. */
enum {
  BLOSC1_VERSION_FORMAT_PRE1 = 1,
  BLOSC1_VERSION_FORMAT = 2,
  BLOSC2_VERSION_FORMAT_ALPHA = 3,
  BLOSC2_VERSION_FORMAT_BETA1 = 4,
  BLOSC2_VERSION_FORMAT_STABLE = 5,
  BLOSC2_VERSION_FORMAT_VL_BLOCKS = 6,
  BLOSC2_VERSION_FORMAT = BLOSC2_VERSION_FORMAT_VL_BLOCKS,
};

/* Versions of the format of frames. */
enum {
  BLOSC2_VERSION_FRAME_FORMAT_BETA2 = 1,
  BLOSC2_VERSION_FRAME_FORMAT_RC1 = 2,
  BLOSC2_VERSION_FRAME_FORMAT_VL_BLOCKS = 3,
  BLOSC2_VERSION_FRAME_FORMAT = BLOSC2_VERSION_FRAME_FORMAT_VL_BLOCKS,
};

/* The record that instr_codec stores instead of a stream: compression ratio, and speed in bytes per second of the codec and of the
 * filters of its block. flags[0] is 1 for streams that repeat a byte. */
typedef struct {
  float cratio;
  float cspeed;
  float filter_speed;
  uint8_t flags[4];
} blosc2_instr;

/* Sizes in bytes. */
enum {
#ifndef BLOSC_H
  BLOSC_MIN_HEADER_LENGTH = 16,
#endif
  BLOSC_EXTENDED_HEADER_LENGTH = 32,
  /* A destination of the size of the source and this many bytes more always suffices. */
  BLOSC2_MAX_OVERHEAD = BLOSC_EXTENDED_HEADER_LENGTH,
  BLOSC2_MAX_BUFFERSIZE = (INT_MAX - BLOSC2_MAX_OVERHEAD),
#ifndef BLOSC_H
  BLOSC_MAX_TYPESIZE = UINT8_MAX,
#endif
  BLOSC_MIN_BUFFERSIZE = 32,
};

/* Ids of tuners. */
enum {
  BLOSC2_DEFINED_TUNER_START = 0,
  BLOSC2_DEFINED_TUNER_STOP = 31,
  BLOSC2_GLOBAL_REGISTERED_TUNER_START = 32,
  BLOSC2_GLOBAL_REGISTERED_TUNER_STOP = 159,
  BLOSC2_GLOBAL_REGISTERED_TUNERS = 0,
  BLOSC2_USER_REGISTERED_TUNER_START = 160,
  BLOSC2_USER_REGISTERED_TUNER_STOP = 255,
};

enum {
  BLOSC_STUNE = 0,
  BLOSC_LAST_TUNER = 1,
  BLOSC_LAST_REGISTERED_TUNE = BLOSC2_GLOBAL_REGISTERED_TUNER_START + BLOSC2_GLOBAL_REGISTERED_TUNERS - 1,
};

/* Ids of filters, and their maximum number. */
enum {
  BLOSC2_DEFINED_FILTERS_START = 0,
  BLOSC2_DEFINED_FILTERS_STOP = 31,
  BLOSC2_GLOBAL_REGISTERED_FILTERS_START = 32,
  BLOSC2_GLOBAL_REGISTERED_FILTERS_STOP = 159,
  BLOSC2_GLOBAL_REGISTERED_FILTERS = 5,
  BLOSC2_USER_REGISTERED_FILTERS_START = 160,
  BLOSC2_USER_REGISTERED_FILTERS_STOP = 255,
  /* Filters of one chunk. */
  BLOSC2_MAX_FILTERS = 6,
  BLOSC2_MAX_UDFILTERS = 16,
};

enum {
#ifndef BLOSC_H
  BLOSC_NOSHUFFLE = 0,
  BLOSC_NOFILTER = 0,
  /* Bytes; filters_meta is the number of bytes of an item, 0 for that of the parameters. */
  BLOSC_SHUFFLE = 1,
  BLOSC_BITSHUFFLE = 2,
#endif
  BLOSC_DELTA = 3,
  /* Floats; filters_meta is the number of bits to keep or, negative, to clear. */
  BLOSC_TRUNC_PREC = 4,
  BLOSC_LAST_FILTER = 5,
  BLOSC_LAST_REGISTERED_FILTER = BLOSC2_GLOBAL_REGISTERED_FILTERS_START + BLOSC2_GLOBAL_REGISTERED_FILTERS - 1,
};

/* Flags of a chunk: blosc1_cbuffer_metainfo. */
enum {
#ifndef BLOSC_H
  BLOSC_DOSHUFFLE = 0x1,
  BLOSC_MEMCPYED = 0x2,
  BLOSC_DOBITSHUFFLE = 0x4,
#endif
  BLOSC_DODELTA = 0x8,
};

/* Flags in the last byte of an extended header. */
enum {
  BLOSC2_USEDICT = 0x1,
  BLOSC2_BIGENDIAN = 0x2,
  BLOSC2_INSTR_CODEC = 0x80,
};

/* Flags in the byte before it. */
enum {
  BLOSC2_VL_BLOCKS = 0x1,
};

/* Sizes in bytes. */
enum {
  BLOSC2_MAXDICTSIZE = 32 * 1024,
  BLOSC2_MINUSEFULDICT = 256,
  BLOSC2_MAXBLOCKSIZE = 536866816,
  BLOSC2_MAXTYPESIZE = BLOSC2_MAXBLOCKSIZE,
};

/* Ids of codecs. */
enum {
  BLOSC2_DEFINED_CODECS_START = 0,
  BLOSC2_DEFINED_CODECS_STOP = 31,
  BLOSC2_GLOBAL_REGISTERED_CODECS_START = 32,
  BLOSC2_GLOBAL_REGISTERED_CODECS_STOP = 159,
  BLOSC2_GLOBAL_REGISTERED_CODECS = 5,
  BLOSC2_USER_REGISTERED_CODECS_START = 160,
  BLOSC2_USER_REGISTERED_CODECS_STOP = 255,
};

enum {
#ifndef BLOSC_H
  BLOSC_BLOSCLZ = 0,
  BLOSC_LZ4 = 1,
  BLOSC_LZ4HC = 2,
  BLOSC_ZLIB = 4,
  BLOSC_ZSTD = 5,
#endif
  BLOSC_LAST_CODEC = 6,
  BLOSC_LAST_REGISTERED_CODEC = BLOSC2_GLOBAL_REGISTERED_CODECS_START + BLOSC2_GLOBAL_REGISTERED_CODECS - 1,
};

#ifndef BLOSC_H
#define BLOSC_BLOSCLZ_COMPNAME "blosclz"
#define BLOSC_LZ4_COMPNAME "lz4"
#define BLOSC_LZ4HC_COMPNAME "lz4hc"
#define BLOSC_ZLIB_COMPNAME "zlib"
#define BLOSC_ZSTD_COMPNAME "zstd"
#define BLOSC_BLOSCLZ_LIBNAME "BloscLZ"
#define BLOSC_LZ4_LIBNAME "LZ4"
#define BLOSC_ZLIB_LIBNAME "Zlib"
#define BLOSC_ZSTD_LIBNAME "Zstd"
#endif

/* The formats of codecs, in the flags of a chunk. */
enum {
#ifndef BLOSC_H
  BLOSC_BLOSCLZ_LIB = 0,
  BLOSC_LZ4_LIB = 1,
  BLOSC_ZLIB_LIB = 3,
  BLOSC_ZSTD_LIB = 4,
#endif
  BLOSC_UDCODEC_LIB = 6,
  BLOSC_SCHUNK_LIB = 7,
};

enum {
#ifndef BLOSC_H
  BLOSC_BLOSCLZ_FORMAT = BLOSC_BLOSCLZ_LIB,
  BLOSC_LZ4_FORMAT = BLOSC_LZ4_LIB,
  BLOSC_LZ4HC_FORMAT = BLOSC_LZ4_LIB,
  BLOSC_ZLIB_FORMAT = BLOSC_ZLIB_LIB,
  BLOSC_ZSTD_FORMAT = BLOSC_ZSTD_LIB,
#endif
  BLOSC_UDCODEC_FORMAT = BLOSC_UDCODEC_LIB,
};

enum {
#ifndef BLOSC_H
  BLOSC_BLOSCLZ_VERSION_FORMAT = 1,
  BLOSC_LZ4_VERSION_FORMAT = 1,
  BLOSC_LZ4HC_VERSION_FORMAT = 1,
  BLOSC_ZLIB_VERSION_FORMAT = 1,
  BLOSC_ZSTD_VERSION_FORMAT = 1,
#endif
  BLOSC_UDCODEC_VERSION_FORMAT = 1,
};

/* Whether each byte of the items of a block gets a separate stream. */
#ifndef BLOSC_H
enum {
  BLOSC_ALWAYS_SPLIT = 1,
  BLOSC_NEVER_SPLIT = 2,
  BLOSC_AUTO_SPLIT = 3,
  BLOSC_FORWARD_COMPAT_SPLIT = 4,
};
#endif

/* Offsets of the fields of a chunk header, in bytes. */
enum {
  BLOSC2_CHUNK_VERSION = 0x0,
  BLOSC2_CHUNK_VERSIONLZ = 0x1,
  BLOSC2_CHUNK_FLAGS = 0x2,
  BLOSC2_CHUNK_TYPESIZE = 0x3,
  BLOSC2_CHUNK_NBYTES = 0x4,
  BLOSC2_CHUNK_BLOCKSIZE = 0x8,
  BLOSC2_CHUNK_CBYTES = 0xc,
  BLOSC2_CHUNK_FILTER_CODES = 0x10,
  BLOSC2_CHUNK_FILTER_META = 0x18,
  BLOSC2_CHUNK_BLOSC2_FLAGS2 = 0x1e,
  BLOSC2_CHUNK_BLOSC2_FLAGS = 0x1F,
};

/* Kinds of chunks that repeat a value, bits 4 to 6 of the last byte of the header. */
enum {
  BLOSC2_NO_SPECIAL = 0x0,
  BLOSC2_SPECIAL_ZERO = 0x1,
  BLOSC2_SPECIAL_NAN = 0x2,
  BLOSC2_SPECIAL_VALUE = 0x3,
  BLOSC2_SPECIAL_UNINIT = 0x4,
  BLOSC2_SPECIAL_LASTID = 0x4,
  BLOSC2_SPECIAL_MASK = 0x7,
};

enum {
  BLOSC2_ERROR_SUCCESS = 0,
  BLOSC2_ERROR_FAILURE = -1,
  BLOSC2_ERROR_STREAM = -2,
  BLOSC2_ERROR_DATA = -3,
  BLOSC2_ERROR_MEMORY_ALLOC = -4,
  BLOSC2_ERROR_READ_BUFFER = -5,
  BLOSC2_ERROR_WRITE_BUFFER = -6,
  BLOSC2_ERROR_CODEC_SUPPORT = -7,
  BLOSC2_ERROR_CODEC_PARAM = -8,
  BLOSC2_ERROR_CODEC_DICT = -9,
  BLOSC2_ERROR_VERSION_SUPPORT = -10,
  BLOSC2_ERROR_INVALID_HEADER = -11,
  BLOSC2_ERROR_INVALID_PARAM = -12,
  BLOSC2_ERROR_FILE_READ = -13,
  BLOSC2_ERROR_FILE_WRITE = -14,
  BLOSC2_ERROR_FILE_OPEN = -15,
  BLOSC2_ERROR_NOT_FOUND = -16,
  BLOSC2_ERROR_RUN_LENGTH = -17,
  BLOSC2_ERROR_FILTER_PIPELINE = -18,
  BLOSC2_ERROR_CHUNK_INSERT = -19,
  BLOSC2_ERROR_CHUNK_APPEND = -20,
  BLOSC2_ERROR_CHUNK_UPDATE = -21,
  BLOSC2_ERROR_2GB_LIMIT = -22,
  BLOSC2_ERROR_SCHUNK_COPY = -23,
  BLOSC2_ERROR_FRAME_TYPE = -24,
  BLOSC2_ERROR_FILE_TRUNCATE = -25,
  BLOSC2_ERROR_THREAD_CREATE = -26,
  BLOSC2_ERROR_POSTFILTER = -27,
  BLOSC2_ERROR_FRAME_SPECIAL = -28,
  BLOSC2_ERROR_SCHUNK_SPECIAL = -29,
  BLOSC2_ERROR_PLUGIN_IO = -30,
  BLOSC2_ERROR_FILE_REMOVE = -31,
  BLOSC2_ERROR_NULL_POINTER = -32,
  BLOSC2_ERROR_INVALID_INDEX = -33,
  BLOSC2_ERROR_METALAYER_NOT_FOUND = -34,
  BLOSC2_ERROR_MAX_BUFSIZE_EXCEEDED = -35,
  BLOSC2_ERROR_TUNER = -36,
  BLOSC2_ERROR_LOCK = -37,
};

#if defined(__GNUC__) || defined(__clang__)
#define BLOSC_ATTRIBUTE_UNUSED __attribute__((unused))
#else
#define BLOSC_ATTRIBUTE_UNUSED
#endif

/* Returns a description of an error code, owned by the library. */
BLOSC_EXPORT const char *blosc2_error_string(int error_code);

BLOSC_ATTRIBUTE_UNUSED static char *print_error(int rc) {
  return (char *)blosc2_error_string(rc);
}

/* ---- The process: settings and functions of Blosc 1, protected by one lock ---- */

/* Does nothing: the library needs no initialization. */
BLOSC_EXPORT void blosc2_init(void);
/* Resets the settings and frees the buffers of the process. */
BLOSC_EXPORT void blosc2_destroy(void);
/* Frees the buffers of the process. Returns 0. */
BLOSC_EXPORT int blosc2_free_resources(void);

/* Compresses a buffer with the settings of the process. Returns the size of the chunk, or 0 if it does not fit. */
BLOSC_EXPORT int blosc1_compress(int clevel, int doshuffle, size_t typesize, size_t nbytes, const void *src,
                                 void *dest, size_t destsize);
BLOSC_EXPORT int blosc2_compress(int clevel, int doshuffle, int32_t typesize, const void *src, int32_t srcsize,
                                 void *dest, int32_t destsize);
/* Decompresses a chunk. Returns its size. The first one trusts the size in its header. */
BLOSC_EXPORT int blosc1_decompress(const void *src, void *dest, size_t destsize);
BLOSC_EXPORT int blosc2_decompress(const void *src, int32_t srcsize, void *dest, int32_t destsize);
/* Decompresses nitems items from the item `start` on. Returns their size. */
BLOSC_EXPORT int blosc1_getitem(const void *src, int start, int nitems, void *dest);
BLOSC_EXPORT int blosc2_getitem(const void *src, int32_t srcsize, int start, int nitems, void *dest, int32_t destsize);

/* Calls dojob for each of numjobs jobs, which are jobdata_elsize bytes apart, on threads provided by the program. */
typedef void (*blosc_threads_callback)(void *callback_data, void (*dojob)(void *), int numjobs,
                                       size_t jobdata_elsize, void *jobdata);
/* Uses threads of the program instead of those of the library. */
BLOSC_EXPORT void blosc2_set_threads_callback(blosc_threads_callback callback, void *callback_data);

/* The number of threads. Setting it returns the previous one. */
BLOSC_EXPORT int16_t blosc2_get_nthreads(void);
BLOSC_EXPORT int16_t blosc2_set_nthreads(int16_t nthreads);
/* The codec. Setting it returns its number, or -1. */
BLOSC_EXPORT const char *blosc1_get_compressor(void);
BLOSC_EXPORT int blosc1_set_compressor(const char *compname);
/* Whether the filters include delta. */
BLOSC_EXPORT void blosc2_set_delta(int dodelta);
/* The block size; 0 for automatic. */
BLOSC_EXPORT int blosc1_get_blocksize(void);
BLOSC_EXPORT void blosc1_set_blocksize(size_t blocksize);
/* How to split blocks: BLOSC_..._SPLIT. */
BLOSC_EXPORT void blosc1_set_splitmode(int splitmode);

/* Names and numbers of codecs. An unknown one is -1. */
BLOSC_EXPORT int blosc2_compcode_to_compname(int compcode, const char **compname);
BLOSC_EXPORT int blosc2_compname_to_compcode(const char *compname);
BLOSC_EXPORT const char *blosc2_list_compressors(void);
BLOSC_EXPORT const char *blosc2_get_version_string(void);
/* Returns the format of a codec, and the name and version of its library, which the caller frees. */
BLOSC_EXPORT int blosc2_get_complib_info(const char *compname, char **complib, char **version);

/* Read the header of a chunk; the first 16 bytes suffice. Pointers to unwanted results may be NULL. */
BLOSC_EXPORT void blosc1_cbuffer_sizes(const void *cbuffer, size_t *nbytes, size_t *cbytes, size_t *blocksize);
BLOSC_EXPORT int blosc2_cbuffer_sizes(const void *cbuffer, int32_t *nbytes, int32_t *cbytes, int32_t *blocksize);
/* Returns 0 if a buffer of cbytes bytes has the header of a chunk of this size. */
BLOSC_EXPORT int blosc1_cbuffer_validate(const void *cbuffer, size_t cbytes, size_t *nbytes);
BLOSC_EXPORT void blosc1_cbuffer_metainfo(const void *cbuffer, size_t *typesize, int *flags);
BLOSC_EXPORT void blosc2_cbuffer_versions(const void *cbuffer, int *version, int *versionlz);
BLOSC_EXPORT const char *blosc2_cbuffer_complib(const void *cbuffer);

/* ---- Files ---- */

enum {
  /* Files of the system. */
  BLOSC2_IO_FILESYSTEM = 0,
  /* The same, mapped into memory; `params` of blosc2_io is a blosc2_stdio_mmap. */
  BLOSC2_IO_FILESYSTEM_MMAP = 1,
  BLOSC_IO_LAST_BLOSC_DEFINED = 2,
  BLOSC_IO_LAST_REGISTERED = 32,
};

enum {
  BLOSC2_IO_BLOSC_DEFINED = 32,
  BLOSC2_IO_REGISTERED = 160,
  BLOSC2_IO_USER_DEFINED = 256,
};

/* Functions of a program for its own files; blosc2-stdio.h describes each one. */
typedef void *(*blosc2_open_cb)(const char *urlpath, const char *mode, void *params);
typedef int (*blosc2_close_cb)(void *stream);
typedef int64_t (*blosc2_size_cb)(void *stream);
typedef int64_t (*blosc2_write_cb)(const void *ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
typedef int64_t (*blosc2_read_cb)(void **ptr, int64_t size, int64_t nitems, int64_t position, void *stream);
typedef int (*blosc2_truncate_cb)(void *stream, int64_t size);
typedef int (*blosc2_destroy_cb)(void *params);

typedef struct {
  /* From 160 on. */
  uint8_t id;
  char *name;
  /* Whether `read` fills the given memory. If not, it returns the address of the bytes. */
  bool is_allocation_necessary;
  blosc2_open_cb open;
  blosc2_close_cb close;
  blosc2_size_cb size;
  blosc2_write_cb write;
  blosc2_read_cb read;
  blosc2_truncate_cb truncate;
  blosc2_destroy_cb destroy;
} blosc2_io_cb;

/* The functions to use, and the argument for `open` and `destroy`. */
typedef struct {
  uint8_t id;
  const char *name;
  void *params;
} blosc2_io;

static const blosc2_io BLOSC2_IO_DEFAULTS = {BLOSC2_IO_FILESYSTEM, "filesystem", NULL};

/* Registers functions. Returns 0. */
BLOSC_EXPORT int blosc2_register_io_cb(const blosc2_io_cb *io);
/* Returns registered functions, or NULL. */
BLOSC_EXPORT blosc2_io_cb *blosc2_get_io_cb(uint8_t id);

/* ---- Contexts ---- */

/* Parameters with the buffers that belong to them. One thread at a time may use a context. */
typedef struct blosc2_context_s blosc2_context;

/* A tuner. This library calls `init` and `free`. */
typedef struct {
  int (*init)(void *config, blosc2_context *cctx, blosc2_context *dctx);
  int (*next_blocksize)(blosc2_context *context);
  int (*next_cparams)(blosc2_context *context);
  int (*update)(blosc2_context *context, double ctime);
  int (*free)(blosc2_context *context);
  int id;
  char *name;
} blosc2_tuner;

BLOSC_EXPORT int blosc2_register_tuner(blosc2_tuner *tuner);

/* The arguments of a prefilter. */
typedef struct {
  void *user_data;
  /* The block of the source. */
  const uint8_t *input;
  /* The destination, initially zeros. */
  uint8_t *output;
  int32_t output_size;
  int32_t output_typesize;
  /* The offset of the block in the chunk. */
  int32_t output_offset;
  /* The number of the chunk, -1 without a super-chunk. */
  int64_t nchunk;
  int32_t nblock;
  /* The number of the thread, from 0 on. */
  int32_t tid;
  /* Scratch memory. */
  uint8_t *ttmp;
  size_t ttmp_nbytes;
  blosc2_context *ctx;
  bool output_is_disposable;
} blosc2_prefilter_params;

/* The arguments of a postfilter. */
typedef struct {
  void *user_data;
  const uint8_t *input;
  uint8_t *output;
  int32_t size;
  int32_t typesize;
  int32_t offset;
  int64_t nchunk;
  int32_t nblock;
  int32_t tid;
  uint8_t *ttmp;
  size_t ttmp_nbytes;
  blosc2_context *ctx;
} blosc2_postfilter_params;

/* Prefilters and postfilters. They return 0, or any other value after an error, and run on all threads. */
typedef int (*blosc2_prefilter_fn)(blosc2_prefilter_params *params);
typedef int (*blosc2_postfilter_fn)(blosc2_postfilter_params *params);

/* Parameters for compressing. */
typedef struct {
  uint8_t compcode;
  uint8_t compcode_meta;
  /* 0 to 9. */
  uint8_t clevel;
  int use_dict;
  int32_t typesize;
  int16_t nthreads;
  /* 0 for automatic. */
  int32_t blocksize;
  int32_t splitmode;
  void *schunk;
  uint8_t filters[BLOSC2_MAX_FILTERS];
  uint8_t filters_meta[BLOSC2_MAX_FILTERS];
  blosc2_prefilter_fn prefilter;
  blosc2_prefilter_params *preparams;
  void *tuner_params;
  int tuner_id;
  bool instr_codec;
  void *codec_params;
  void *filter_params[BLOSC2_MAX_FILTERS];
} blosc2_cparams;

static const blosc2_cparams BLOSC2_CPARAMS_DEFAULTS = {
    BLOSC_BLOSCLZ, 0, 5, 0, 8, 1, 0, BLOSC_FORWARD_COMPAT_SPLIT, NULL,
    {0, 0, 0, 0, 0, BLOSC_SHUFFLE}, {0, 0, 0, 0, 0, 0},
    NULL, NULL, NULL, 0, 0, NULL, {NULL, NULL, NULL, NULL, NULL, NULL}};

/* Parameters for decompressing. */
typedef struct {
  int16_t nthreads;
  void *schunk;
  blosc2_postfilter_fn postfilter;
  blosc2_postfilter_params *postparams;
  int32_t typesize;
} blosc2_dparams;

static const blosc2_dparams BLOSC2_DPARAMS_DEFAULTS = {1, NULL, NULL, NULL, 8};

/* Create and free contexts. */
BLOSC_EXPORT blosc2_context *blosc2_create_cctx(blosc2_cparams cparams);
BLOSC_EXPORT blosc2_context *blosc2_create_dctx(blosc2_dparams dparams);
BLOSC_EXPORT void blosc2_free_ctx(blosc2_context *context);
/* Return the parameters of a context. */
BLOSC_EXPORT int blosc2_ctx_get_cparams(blosc2_context *ctx, blosc2_cparams *cparams);
BLOSC_EXPORT int blosc2_ctx_get_dparams(blosc2_context *ctx, blosc2_dparams *dparams);
/* Sets which blocks the next blosc2_decompress_ctx skips. */
BLOSC_EXPORT int blosc2_set_maskout(blosc2_context *ctx, bool *maskout, int nblocks);

/* Compresses. Returns the size of the chunk, or 0 if it does not fit. */
BLOSC_EXPORT int blosc2_compress_ctx(blosc2_context *context, const void *src, int32_t srcsize, void *dest,
                                     int32_t destsize);
/* Decompresses. Returns the size. */
BLOSC_EXPORT int blosc2_decompress_ctx(blosc2_context *context, const void *src, int32_t srcsize, void *dest,
                                       int32_t destsize);
/* Compresses blocks of any sizes into one chunk. */
BLOSC_EXPORT int blosc2_vlcompress_ctx(blosc2_context *context, const void *const *srcs, const int32_t *srcsizes,
                                       int32_t nblocks, void *dest, int32_t destsize);
/* Decompresses them, each into memory that the caller frees. Returns their number. */
BLOSC_EXPORT int blosc2_vldecompress_ctx(blosc2_context *context, const void *src, int32_t srcsize, void **dests,
                                         int32_t *destsizes, int32_t maxblocks);
BLOSC_EXPORT int blosc2_vlchunk_get_nblocks(const void *src, int32_t srcsize, int32_t *nblocks);
/* Decompresses one of them into memory that the caller frees. Returns its size. */
BLOSC_EXPORT int blosc2_vldecompress_block_ctx(blosc2_context *context, const void *src, int32_t srcsize,
                                               int32_t nblock, uint8_t **dest, int32_t *destsize);
/* Write chunks that repeat a value. Return their size. */
BLOSC_EXPORT int blosc2_chunk_zeros(blosc2_cparams cparams, int32_t nbytes, void *dest, int32_t destsize);
BLOSC_EXPORT int blosc2_chunk_nans(blosc2_cparams cparams, int32_t nbytes, void *dest, int32_t destsize);
BLOSC_EXPORT int blosc2_chunk_repeatval(blosc2_cparams cparams, int32_t nbytes, void *dest, int32_t destsize,
                                        const void *repeatval);
BLOSC_EXPORT int blosc2_chunk_uninit(blosc2_cparams cparams, int32_t nbytes, void *dest, int32_t destsize);
/* Decompress part of a chunk: items, or bytes of whole items. Return the size. */
BLOSC_EXPORT int blosc2_getitem_ctx(blosc2_context *context, const void *src, int32_t srcsize, int start, int nitems,
                                    void *dest, int32_t destsize);
BLOSC_EXPORT int blosc2_getitem_bytes_ctx(blosc2_context *context, const void *src, int32_t srcsize, int32_t start,
                                          int32_t nbytes, void *dest, int32_t destsize);

/* ---- Super-chunks ---- */

#define BLOSC2_MAX_METALAYERS 16
#define BLOSC2_METALAYER_NAME_MAXLEN 31
#define BLOSC2_MAX_VLMETALAYERS (8 * 1024)
#define BLOSC2_VLMETALAYERS_NAME_MAXLEN BLOSC2_METALAYER_NAME_MAXLEN

/* The location of a super-chunk: in memory, in a file (contiguous) or in a directory. */
typedef struct {
  bool contiguous;
  char *urlpath;
  blosc2_cparams *cparams;
  blosc2_dparams *dparams;
  blosc2_io *io;
} blosc2_storage;

static const blosc2_storage BLOSC2_STORAGE_DEFAULTS = {false, NULL, NULL, NULL, NULL};

/* Return the defaults, for languages that cannot read the constants. */
BLOSC_EXPORT blosc2_cparams blosc2_get_blosc2_cparams_defaults(void);
BLOSC_EXPORT blosc2_dparams blosc2_get_blosc2_dparams_defaults(void);
BLOSC_EXPORT blosc2_storage blosc2_get_blosc2_storage_defaults(void);
BLOSC_EXPORT blosc2_io blosc2_get_blosc2_io_defaults(void);
BLOSC_EXPORT blosc2_stdio_mmap blosc2_get_blosc2_stdio_mmap_defaults(void);

typedef struct blosc2_frame_s blosc2_frame;

typedef struct blosc2_metalayer {
  char *name;
  uint8_t *content;
  int32_t content_len;
} blosc2_metalayer;

/* A super-chunk. Programs read the fields; they may change chunksize, current_nchunk, the parameters in storage, and replace
 * cctx and dctx, which they free before. */
typedef struct blosc2_schunk {
  uint8_t version;
  uint8_t compcode;
  uint8_t compcode_meta;
  uint8_t clevel;
  uint8_t splitmode;
  int32_t typesize;
  int32_t blocksize;
  /* The size of all chunks but the last; 0 if they differ, -1 before the first. */
  int32_t chunksize;
  uint8_t flags2;
  uint8_t use_dict;
  uint8_t filters[BLOSC2_MAX_FILTERS];
  uint8_t filters_meta[BLOSC2_MAX_FILTERS];
  int64_t nchunks;
  int64_t current_nchunk;
  int64_t nbytes;
  int64_t cbytes;
  /* The chunks, if they are a list in memory. */
  uint8_t **data;
  size_t data_len;
  blosc2_storage *storage;
  /* Not NULL if it is a frame. */
  blosc2_frame *frame;
  blosc2_context *cctx;
  blosc2_context *dctx;
  struct blosc2_metalayer *metalayers[BLOSC2_MAX_METALAYERS];
  uint16_t nmetalayers;
  /* Their contents are chunks. */
  struct blosc2_metalayer *vlmetalayers[BLOSC2_MAX_VLMETALAYERS];
  int16_t nvlmetalayers;
  void *tuner_params;
  int tuner_id;
  int8_t ndim;
  int64_t *blockshape;
  bool view;
  /* Incremented with each change that this handle made or detected. */
  int64_t change_tick;
} blosc2_schunk;

/* Creates a super-chunk; nothing may exist at its path. */
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_new(blosc2_storage *storage);
/* Copies a super-chunk, with other parameters or to another location. */
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_copy(blosc2_schunk *schunk, blosc2_storage *storage);
/* Opens a frame in memory. Without `copy` the bytes must stay valid; blosc2_schunk_avoid_cframe_free(schunk, false) transfers
 * ownership. */
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_from_buffer(uint8_t *cframe, int64_t len, bool copy);
BLOSC_EXPORT void blosc2_schunk_avoid_cframe_free(blosc2_schunk *schunk, bool avoid_cframe_free);
/* Combine the changes in between into one commit. With locking on (BLOSC_LOCKING, blosc2_stdio_params), other programs wait. */
BLOSC_EXPORT int blosc2_schunk_lock(blosc2_schunk *schunk);
BLOSC_EXPORT int blosc2_schunk_unlock(blosc2_schunk *schunk);
/* Checks whether the file was changed by others, and reloads it. Returns 1 if it was. */
BLOSC_EXPORT int blosc2_schunk_refresh(blosc2_schunk *schunk);
/* Open a file or directory, or a frame at an offset inside a file. */
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_open(const char *urlpath);
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_open_offset(const char *urlpath, int64_t offset);
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_open_udio(const char *urlpath, const blosc2_io *udio);
BLOSC_EXPORT blosc2_schunk *blosc2_schunk_open_offset_udio(const char *urlpath, int64_t offset, const blosc2_io *udio);
/* Returns a contiguous frame and its length. */
BLOSC_EXPORT int64_t blosc2_schunk_to_buffer(blosc2_schunk *schunk, uint8_t **cframe, bool *needs_free);
/* Writes it to a file, and returns its length; or appends it, and returns its offset. */
BLOSC_EXPORT int64_t blosc2_schunk_to_file(blosc2_schunk *schunk, const char *urlpath);
BLOSC_EXPORT int64_t blosc2_schunk_append_file(blosc2_schunk *schunk, const char *urlpath);
BLOSC_EXPORT int blosc2_schunk_free(blosc2_schunk *schunk);
/* Change chunks. Without `copy` the chunk is from malloc, and ownership is passed. Return the number of chunks. */
BLOSC_EXPORT int64_t blosc2_schunk_append_chunk(blosc2_schunk *schunk, uint8_t *chunk, bool copy);
BLOSC_EXPORT int64_t blosc2_schunk_update_chunk(blosc2_schunk *schunk, int64_t nchunk, uint8_t *chunk, bool copy);
BLOSC_EXPORT int64_t blosc2_schunk_insert_chunk(blosc2_schunk *schunk, int64_t nchunk, uint8_t *chunk, bool copy);
BLOSC_EXPORT int64_t blosc2_schunk_delete_chunk(blosc2_schunk *schunk, int64_t nchunk);
BLOSC_EXPORT int64_t blosc2_schunk_append_buffer(blosc2_schunk *schunk, const void *src, int32_t nbytes);
/* Decompresses a chunk. Returns its size. */
BLOSC_EXPORT int blosc2_schunk_decompress_chunk(blosc2_schunk *schunk, int64_t nchunk, void *dest, int32_t nbytes);
/* Return a chunk and its size; for a file, the second one omits the blocks. */
BLOSC_EXPORT int blosc2_schunk_get_chunk(blosc2_schunk *schunk, int64_t nchunk, uint8_t **chunk, bool *needs_free);
BLOSC_EXPORT int blosc2_schunk_get_lazychunk(blosc2_schunk *schunk, int64_t nchunk, uint8_t **chunk, bool *needs_free);
/* Decompresses a block of any size into memory that the caller frees. */
BLOSC_EXPORT int blosc2_schunk_get_vlblock(blosc2_schunk *schunk, int64_t nchunk, int32_t nblock, uint8_t **dest,
                                           int32_t *destsize);
/* Copy items: from `start` to before `stop`, or single ones. */
BLOSC_EXPORT int blosc2_schunk_get_slice_buffer(blosc2_schunk *schunk, int64_t start, int64_t stop, void *buffer);
BLOSC_EXPORT int blosc2_schunk_set_slice_buffer(blosc2_schunk *schunk, int64_t start, int64_t stop, void *buffer);
BLOSC_EXPORT int blosc2_schunk_get_sparse_buffer(blosc2_schunk *schunk, int64_t ncoords, const int64_t *coords,
                                                 void *buffer);
/* Return the parameters, which the caller frees. */
BLOSC_EXPORT int blosc2_schunk_get_cparams(blosc2_schunk *schunk, blosc2_cparams **cparams);
BLOSC_EXPORT int blosc2_schunk_get_dparams(blosc2_schunk *schunk, blosc2_dparams **dparams);
/* Reorders the chunks: the n-th chunk is the old offsets_order[n]-th. */
BLOSC_EXPORT int blosc2_schunk_reorder_offsets(blosc2_schunk *schunk, int64_t *offsets_order);
/* Returns the length as a frame. */
BLOSC_EXPORT int64_t blosc2_schunk_frame_len(blosc2_schunk *schunk);
/* Fills an empty super-chunk with BLOSC2_SPECIAL_ZERO, _NAN or _UNINIT. Returns the number of chunks. */
BLOSC_EXPORT int64_t blosc2_schunk_fill_special(blosc2_schunk *schunk, int64_t nitems, int special_value,
                                                int32_t chunksize);
/* Returns the offsets of the chunks in the frame; the caller frees the list. */
BLOSC_EXPORT int64_t *blosc2_frame_get_offsets(blosc2_schunk *schunk);

/* ---- Metalayers. Functions return the number of the metalayer. ---- */

static inline int blosc2_meta_exists(blosc2_schunk *schunk, const char *name) {
  if (schunk == NULL || name == NULL || strlen(name) > BLOSC2_METALAYER_NAME_MAXLEN) {
    return BLOSC2_ERROR_INVALID_PARAM;
  }
  for (int n = 0; n < schunk->nmetalayers; n++) {
    if (strcmp(schunk->metalayers[n]->name, name) == 0) {
      return n;
    }
  }
  return BLOSC2_ERROR_NOT_FOUND;
}

BLOSC_EXPORT int blosc2_meta_add(blosc2_schunk *schunk, const char *name, uint8_t *content, int32_t content_len);
/* The new content may be shorter than the old one, whose remaining bytes then stay. */
BLOSC_EXPORT int blosc2_meta_update(blosc2_schunk *schunk, const char *name, uint8_t *content, int32_t content_len);

/* Copies the content for the caller, who frees it. */
static inline int blosc2_meta_get(blosc2_schunk *schunk, const char *name, uint8_t **content, int32_t *content_len) {
  if (content == NULL || content_len == NULL) {
    return BLOSC2_ERROR_INVALID_PARAM;
  }
  int n = blosc2_meta_exists(schunk, name);
  if (n < 0) {
    return n;
  }
  const blosc2_metalayer *meta = schunk->metalayers[n];
  *content = NULL;
  *content_len = meta->content_len;
  if (meta->content_len > 0) {
    *content = (uint8_t *)malloc((size_t)meta->content_len);
    if (*content == NULL) {
      *content_len = 0;
      return BLOSC2_ERROR_MEMORY_ALLOC;
    }
    memcpy(*content, meta->content, (size_t)meta->content_len);
  }
  return n;
}

/* The same for contents of any length, which are compressed and can be changed at any time. */
BLOSC_EXPORT int blosc2_vlmeta_exists(blosc2_schunk *schunk, const char *name);
BLOSC_EXPORT int blosc2_vlmeta_add(blosc2_schunk *schunk, const char *name, uint8_t *content, int32_t content_len,
                                   blosc2_cparams *cparams);
BLOSC_EXPORT int blosc2_vlmeta_update(blosc2_schunk *schunk, const char *name, uint8_t *content, int32_t content_len,
                                      blosc2_cparams *cparams);
BLOSC_EXPORT int blosc2_vlmeta_get(blosc2_schunk *schunk, const char *name, uint8_t **content, int32_t *content_len);
BLOSC_EXPORT int blosc2_vlmeta_delete(blosc2_schunk *schunk, const char *name);
BLOSC_EXPORT int blosc2_vlmeta_get_names(blosc2_schunk *schunk, char **names);

/* ---- Time ---- */

typedef struct timespec blosc_timestamp_t;
BLOSC_EXPORT void blosc_set_timestamp(blosc_timestamp_t *timestamp);
BLOSC_EXPORT double blosc_elapsed_nsecs(blosc_timestamp_t start_time, blosc_timestamp_t end_time);
BLOSC_EXPORT double blosc_elapsed_secs(blosc_timestamp_t start_time, blosc_timestamp_t end_time);

/* ---- Codecs and filters of programs ---- */

/* Compresses a stream. Returns its size, or 0 if it does not fit. `cparams` are those of the call. */
typedef int (*blosc2_codec_encoder_cb)(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len,
                                       uint8_t meta, blosc2_cparams *cparams, const void *chunk);
/* Decompresses a stream. Returns output_len. */
typedef int (*blosc2_codec_decoder_cb)(const uint8_t *input, int32_t input_len, uint8_t *output, int32_t output_len,
                                       uint8_t meta, blosc2_dparams *dparams, const void *chunk);

typedef struct {
  /* From 160 on. */
  uint8_t compcode;
  char *compname;
  uint8_t complib;
  uint8_t version;
  blosc2_codec_encoder_cb encoder;
  blosc2_codec_decoder_cb decoder;
} blosc2_codec;

BLOSC_EXPORT int blosc2_register_codec(blosc2_codec *codec);

/* Filters a block, or undoes it: input, output, size of both, filters_meta, parameters of the call, id. Returns 0. */
typedef int (*blosc2_filter_forward_cb)(const uint8_t *, uint8_t *, int32_t, uint8_t, blosc2_cparams *, uint8_t);
typedef int (*blosc2_filter_backward_cb)(const uint8_t *, uint8_t *, int32_t, uint8_t, blosc2_dparams *, uint8_t);

typedef struct {
  /* From 160 on. */
  uint8_t id;
  char *name;
  uint8_t version;
  blosc2_filter_forward_cb forward;
  blosc2_filter_backward_cb backward;
} blosc2_filter;

BLOSC_EXPORT int blosc2_register_filter(blosc2_filter *filter);

/* ---- Paths ---- */

/* Remove a directory of files, either of them, or rename. Return 0. */
BLOSC_EXPORT int blosc2_remove_dir(const char *path);
BLOSC_EXPORT int blosc2_remove_urlpath(const char *path);
BLOSC_EXPORT int blosc2_rename_urlpath(char *old_urlpath, char *new_path);

/* ---- Indices ---- */

BLOSC_EXPORT void blosc2_unidim_to_multidim(uint8_t ndim, int64_t *shape, int64_t i, int64_t *index);
BLOSC_EXPORT void blosc2_multidim_to_unidim(const int64_t *index, int8_t ndim, const int64_t *strides, int64_t *i);
/* Returns the number of chunks that a slice touches, and their list, which the caller frees. */
BLOSC_EXPORT int64_t blosc2_get_slice_nchunks(blosc2_schunk *schunk, int64_t *start, int64_t *stop,
                                              int64_t **chunks_idx);

/* ---- Shuffles of a block. Return its size. ---- */

BLOSC_EXPORT int32_t blosc2_shuffle(const int32_t typesize, const int32_t blocksize, const void *src, void *dest);
BLOSC_EXPORT int32_t blosc2_unshuffle(const int32_t typesize, const int32_t blocksize, const void *src, void *dest);
BLOSC_EXPORT int32_t blosc2_bitshuffle(const int32_t typesize, const int32_t blocksize, const void *src, void *dest);
BLOSC_EXPORT int32_t blosc2_bitunshuffle(const int32_t typesize, const int32_t blocksize, const void *src,
                                         void *dest);

/* Copies a number of up to 8 bytes between the machine's byte order and big-endian. */
BLOSC_ATTRIBUTE_UNUSED static inline void swap_store(void *dest, const void *pa, int size) {
  const uint16_t one = 1;
  const uint8_t *from = (const uint8_t *)pa;
  uint8_t to[8];
  if (size < 1 || size > 8) {
    return;
  }
  for (int n = 0; n < size; n++) {
    to[n] = *(const uint8_t *)&one == 1 ? from[size - 1 - n] : from[n];
  }
  memcpy(dest, to, (size_t)size);
}

#ifdef __cplusplus
}
#endif

#endif
