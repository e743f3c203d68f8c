/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Ids of tuners beyond those of blosc2.h. This library has none of them. */
#ifndef BLOSC_BLOSC2_TUNERS_REGISTRY_H
#define BLOSC_BLOSC2_TUNERS_REGISTRY_H

enum {
  BLOSC_BTUNE = 32,
};

#endif
