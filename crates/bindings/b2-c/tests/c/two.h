/* Two libraries in one process: each function is looked up in each of them. */
#ifndef TWO_H
#define TWO_H

#include "b2nd.h"

#include <dlfcn.h>

typedef struct {
  void *handle;
  __typeof__(&blosc2_create_cctx) create_cctx;
  __typeof__(&blosc2_create_dctx) create_dctx;
  __typeof__(&blosc2_free_ctx) free_ctx;
  __typeof__(&blosc2_compress_ctx) compress_ctx;
  __typeof__(&blosc2_decompress_ctx) decompress_ctx;
  __typeof__(&blosc2_getitem_ctx) getitem_ctx;
  __typeof__(&blosc2_init) init;
  __typeof__(&b2nd_create_ctx) create_array_ctx;
  __typeof__(&b2nd_free_ctx) free_array_ctx;
  __typeof__(&b2nd_from_cbuffer) from_cbuffer;
  __typeof__(&b2nd_to_cframe) to_cframe;
  __typeof__(&b2nd_from_cframe) from_cframe;
  __typeof__(&b2nd_to_cbuffer) to_cbuffer;
  __typeof__(&b2nd_get_slice_cbuffer) get_slice;
  __typeof__(&b2nd_append) append;
  __typeof__(&b2nd_resize) resize;
  __typeof__(&b2nd_open) open;
  __typeof__(&b2nd_free) free;
  __typeof__(&blosc2_vlmeta_add) vlmeta_add;
  __typeof__(&blosc2_vlmeta_update) vlmeta_update;
  __typeof__(&blosc2_vlmeta_get) vlmeta_get;
  __typeof__(&blosc2_remove_urlpath) remove;
} library;

static library load(const char *path) {
  library lib = {0};
  lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (lib.handle == NULL) {
    printf("%s\n", dlerror());
    exit(2);
  }
#define FIND(field, name) *(void **)&lib.field = dlsym(lib.handle, #name)
  FIND(create_cctx, blosc2_create_cctx);
  FIND(create_dctx, blosc2_create_dctx);
  FIND(free_ctx, blosc2_free_ctx);
  FIND(compress_ctx, blosc2_compress_ctx);
  FIND(decompress_ctx, blosc2_decompress_ctx);
  FIND(getitem_ctx, blosc2_getitem_ctx);
  FIND(init, blosc2_init);
  FIND(create_array_ctx, b2nd_create_ctx);
  FIND(free_array_ctx, b2nd_free_ctx);
  FIND(from_cbuffer, b2nd_from_cbuffer);
  FIND(to_cframe, b2nd_to_cframe);
  FIND(from_cframe, b2nd_from_cframe);
  FIND(to_cbuffer, b2nd_to_cbuffer);
  FIND(get_slice, b2nd_get_slice_cbuffer);
  FIND(append, b2nd_append);
  FIND(resize, b2nd_resize);
  FIND(open, b2nd_open);
  FIND(free, b2nd_free);
  FIND(vlmeta_add, blosc2_vlmeta_add);
  FIND(vlmeta_update, blosc2_vlmeta_update);
  FIND(vlmeta_get, blosc2_vlmeta_get);
  FIND(remove, blosc2_remove_urlpath);
  lib.init();
  return lib;
}

#endif
