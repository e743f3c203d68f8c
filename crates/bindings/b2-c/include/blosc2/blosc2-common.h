/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Definitions for the other headers. */
#ifndef BLOSC_BLOSC2_BLOSC2_COMMON_H
#define BLOSC_BLOSC2_BLOSC2_COMMON_H

#include "blosc2-export.h"

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define BLOSC_UNUSED_VAR __attribute__((unused))
#else
#define BLOSC_UNUSED_VAR
#endif

/* Marks a parameter as intentionally unused. */
#define BLOSC_UNUSED_PARAM(x) ((void)(x))

#endif
