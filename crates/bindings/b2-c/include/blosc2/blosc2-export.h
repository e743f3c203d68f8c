/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which functions a program may call: all that are declared with BLOSC_EXPORT. */
#ifndef BLOSC_BLOSC2_BLOSC2_EXPORT_H
#define BLOSC_BLOSC2_BLOSC2_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define BLOSC_EXPORT __attribute__((visibility("default")))
#define BLOSC_NO_EXPORT __attribute__((visibility("hidden")))
#else
#define BLOSC_EXPORT
#define BLOSC_NO_EXPORT
#endif

#endif
