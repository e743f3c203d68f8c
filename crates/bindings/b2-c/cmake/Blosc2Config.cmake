# SPDX-License-Identifier: MIT OR Apache-2.0
# find_package(Blosc2): the targets have the names of those of C-Blosc2.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG TRUE)
find_dependency(Threads)

# This file is in @LIBDIR@/cmake/blosc2 of the folder that it was installed into, which may have been moved.
get_filename_component(_blosc2_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_blosc2_prefix "${_blosc2_lib}/@PREFIX_FROM_LIBDIR@" ABSOLUTE)

if(NOT TARGET Blosc2::blosc2_shared)
  add_library(Blosc2::blosc2_shared SHARED IMPORTED)
  set_target_properties(Blosc2::blosc2_shared PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_blosc2_prefix}/include"
    IMPORTED_LOCATION "${_blosc2_lib}/libblosc2.so.9"
    IMPORTED_SONAME "libblosc2.so.9")
endif()
if(NOT TARGET Blosc2::blosc2_static)
  add_library(Blosc2::blosc2_static STATIC IMPORTED)
  set_target_properties(Blosc2::blosc2_static PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_blosc2_prefix}/include"
    IMPORTED_LOCATION "${_blosc2_lib}/libblosc2.a"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m@ZSTD@")
endif()
if(NOT TARGET Blosc2::blosc2)
  add_library(Blosc2::blosc2 INTERFACE IMPORTED)
  set_target_properties(Blosc2::blosc2 PROPERTIES INTERFACE_LINK_LIBRARIES Blosc2::blosc2_shared)
endif()

foreach(_blosc2_component IN ITEMS THREADS LZ4 ZLIB ZLIB_NG ZSTD)
  set(Blosc2_${_blosc2_component}_FOUND TRUE)
endforeach()
unset(_blosc2_component)
unset(_blosc2_lib)
unset(_blosc2_prefix)
