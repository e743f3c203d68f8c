/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arrays of N dimensions: `b2nd.h` of b2kit's libblosc2.
 *
 * Functions return 0, or a negative number, one of BLOSC2_ERROR_... of blosc2.h. Shapes have a length for each dimension, in
 * items. Items are in C order.
 */
#ifndef BLOSC_B2ND_H
#define BLOSC_B2ND_H

#include "blosc2.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define B2ND_DEPRECATED(msg) __attribute__((deprecated(msg)))
#else
#define B2ND_DEPRECATED(msg)
#endif

#define B2ND_METALAYER_VERSION 0
#define B2ND_MAX_DIM 16
#define B2ND_MAX_METALAYERS (BLOSC2_MAX_METALAYERS - 1)
/* The dtype is written as NumPy writes it. */
#define DTYPE_NUMPY_FORMAT 0
#define B2ND_DEFAULT_DTYPE "|u1"
#define B2ND_DEFAULT_DTYPE_FORMAT DTYPE_NUMPY_FORMAT

struct chunk_cache_s {
  uint8_t *data;
  int64_t nchunk;
};

/* Parameters of a new array. */
typedef struct b2nd_context_s b2nd_context_t;

/* An array. Programs read the fields. */
typedef struct {
  blosc2_schunk *sc;
  int64_t shape[B2ND_MAX_DIM];
  int32_t chunkshape[B2ND_MAX_DIM];
  /* The shape rounded up to chunks. */
  int64_t extshape[B2ND_MAX_DIM];
  int32_t blockshape[B2ND_MAX_DIM];
  /* The shape of a chunk rounded up to blocks. */
  int64_t extchunkshape[B2ND_MAX_DIM];
  int64_t nitems;
  int32_t chunknitems;
  int64_t extnitems;
  int32_t blocknitems;
  int64_t extchunknitems;
  int8_t ndim;
  /* Not used by this library. */
  struct chunk_cache_s chunk_cache;
  /* Distances of neighbours along each dimension: items in the array, in a chunk, in a rounded chunk, in a block;
   * blocks in a chunk; chunks in the array. */
  int64_t item_array_strides[B2ND_MAX_DIM];
  int64_t item_chunk_strides[B2ND_MAX_DIM];
  int64_t item_extchunk_strides[B2ND_MAX_DIM];
  int64_t item_block_strides[B2ND_MAX_DIM];
  int64_t block_chunk_strides[B2ND_MAX_DIM];
  int64_t chunk_array_strides[B2ND_MAX_DIM];
  char *dtype;
  int8_t dtype_format;
  int64_t last_tick;
} b2nd_array_t;

/* Create and free the parameters of new arrays. NULL for inconsistent shapes. */
BLOSC_EXPORT b2nd_context_t *b2nd_create_ctx(const blosc2_storage *b2_storage, int8_t ndim, const int64_t *shape,
                                             const int32_t *chunkshape, const int32_t *blockshape, const char *dtype,
                                             int8_t dtype_format, const blosc2_metalayer *metalayers,
                                             int32_t nmetalayers);
BLOSC_EXPORT int b2nd_free_ctx(b2nd_context_t *ctx);

/* Create arrays of uninitialised items, of zeros, of NaNs, or of one repeated item. */
BLOSC_EXPORT int b2nd_uninit(b2nd_context_t *ctx, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_empty(b2nd_context_t *ctx, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_zeros(b2nd_context_t *ctx, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_nans(b2nd_context_t *ctx, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_full(b2nd_context_t *ctx, b2nd_array_t **array, const void *fill_value);
/* Frees an array and its super-chunk. */
BLOSC_EXPORT int b2nd_free(b2nd_array_t *array);

/* Arrays from and to super-chunks, frames in memory and files. */
BLOSC_EXPORT int b2nd_from_schunk(blosc2_schunk *schunk, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_to_cframe(const b2nd_array_t *array, uint8_t **cframe, int64_t *cframe_len, bool *needs_free);
/* Without `copy`, the bytes stay until the array is freed, which does not free them. */
BLOSC_EXPORT int b2nd_from_cframe(uint8_t *cframe, int64_t cframe_len, bool copy, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_open(const char *urlpath, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_open_offset(const char *urlpath, b2nd_array_t **array, int64_t offset);
BLOSC_EXPORT int b2nd_save(const b2nd_array_t *array, char *urlpath);
/* Returns the offset of the frame in the file. */
BLOSC_EXPORT int64_t b2nd_save_append(const b2nd_array_t *array, const char *urlpath);

/* All items, or single ones by their number in C order. */
BLOSC_EXPORT int b2nd_from_cbuffer(b2nd_context_t *ctx, b2nd_array_t **array, const void *buffer, int64_t buffersize);
BLOSC_EXPORT int b2nd_to_cbuffer(const b2nd_array_t *array, void *buffer, int64_t buffersize);
BLOSC_EXPORT int b2nd_get_sparse_cbuffer(const b2nd_array_t *array, int64_t ncoords, const int64_t *coords,
                                         void *buffer, int64_t buffersize);

/* The items from `start` to before `stop`, as an array or in a buffer of the shape buffershape. */
BLOSC_EXPORT int b2nd_get_slice(b2nd_context_t *ctx, b2nd_array_t **array, const b2nd_array_t *src,
                                const int64_t *start, const int64_t *stop);
BLOSC_EXPORT int b2nd_get_slice_cbuffer(const b2nd_array_t *array, const int64_t *start, const int64_t *stop,
                                        void *buffer, const int64_t *buffershape, int64_t buffersize);
BLOSC_EXPORT int b2nd_set_slice_cbuffer(const void *buffer, const int64_t *buffershape, int64_t buffersize,
                                        const int64_t *start, const int64_t *stop, b2nd_array_t *array);

/* Views without axes of length 1, or with new ones. They show the chunks of the array. */
BLOSC_EXPORT int b2nd_squeeze_index(b2nd_array_t *array, b2nd_array_t **view, const bool *index);
BLOSC_EXPORT int b2nd_squeeze(b2nd_array_t *array, b2nd_array_t **view);
BLOSC_EXPORT int b2nd_expand_dims(const b2nd_array_t *array, b2nd_array_t **view, const bool *axis,
                                  const uint8_t final_dims);

/* Copies an array; or joins two along an axis: into a new one or, without `copy`, onto the first. */
BLOSC_EXPORT int b2nd_copy(b2nd_context_t *ctx, const b2nd_array_t *src, b2nd_array_t **array);
BLOSC_EXPORT int b2nd_concatenate(b2nd_context_t *ctx, const b2nd_array_t *src1, const b2nd_array_t *src2, int8_t axis,
                                  bool copy, b2nd_array_t **array);

BLOSC_EXPORT int b2nd_print_meta(const b2nd_array_t *array);

/* Change the shape. Along each axis, items are added or removed at `start`, or at the end if it is NULL; in the middle
 * only whole chunks. */
BLOSC_EXPORT int b2nd_resize(b2nd_array_t *array, const int64_t *new_shape, const int64_t *start);
BLOSC_EXPORT int b2nd_insert(b2nd_array_t *array, const void *buffer, int64_t buffersize, int8_t axis,
                             int64_t insert_start);
BLOSC_EXPORT int b2nd_append(b2nd_array_t *array, const void *buffer, int64_t buffersize, int8_t axis);
BLOSC_EXPORT int b2nd_delete(b2nd_array_t *array, int8_t axis, int64_t delete_start, int64_t delete_len);
/* Takes the shape from the file. Returns 1 if it was changed. */
BLOSC_EXPORT int b2nd_refresh(b2nd_array_t *array);

/* The items at all combinations of positions along each axis. */
BLOSC_EXPORT int b2nd_get_orthogonal_selection(const b2nd_array_t *array, int64_t **selection,
                                               int64_t *selection_size, void *buffer, int64_t *buffershape,
                                               int64_t buffersize);
BLOSC_EXPORT int b2nd_set_orthogonal_selection(b2nd_array_t *array, int64_t **selection, int64_t *selection_size,
                                               const void *buffer, int64_t *buffershape, int64_t buffersize);

/* The metalayer `b2nd`. Return its length. The caller frees *smeta and *dtype. */
BLOSC_EXPORT int b2nd_serialize_meta(int8_t ndim, const int64_t *shape, const int32_t *chunkshape,
                                     const int32_t *blockshape, const char *dtype, int8_t dtype_format,
                                     uint8_t **smeta);
BLOSC_EXPORT int b2nd_deserialize_meta(const uint8_t *smeta, int32_t smeta_len, int8_t *ndim, int64_t *shape,
                                       int32_t *chunkshape, int32_t *blockshape, char **dtype, int8_t *dtype_format);

/* The same under the name of C-Blosc2's inline function. Here it is a function of the library. */
static inline int b2nd_deserialize_meta_inline(const uint8_t *smeta, int32_t smeta_len, int8_t *ndim, int64_t *shape,
                                               int32_t *chunkshape, int32_t *blockshape, char **dtype,
                                               int8_t *dtype_format) {
  return b2nd_deserialize_meta(smeta, smeta_len, ndim, shape, chunkshape, blockshape, dtype, dtype_format);
}

/* Copy a box from one buffer to another; their shapes are ..._pad_shape. The first one accepts items of up to 255 bytes. */
B2ND_DEPRECATED("Use b2nd_copy_buffer2 instead.")
BLOSC_EXPORT int b2nd_copy_buffer(int8_t ndim, uint8_t itemsize, const void *src, const int64_t *src_pad_shape,
                                  const int64_t *src_start, const int64_t *src_stop, void *dst,
                                  const int64_t *dst_pad_shape, const int64_t *dst_start);
BLOSC_EXPORT int b2nd_copy_buffer2(int8_t ndim, int32_t itemsize, const void *src, const int64_t *src_pad_shape,
                                   const int64_t *src_start, const int64_t *src_stop, void *dst,
                                   const int64_t *dst_pad_shape, const int64_t *dst_start);

#ifdef __cplusplus
}
#endif

#endif
