/* Counts checks that pass, and prints those that fail. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

static int passed, failed;

#define CHECK(condition)                                                                                       \
  do {                                                                                                         \
    if (condition) {                                                                                           \
      passed++;                                                                                                \
    } else {                                                                                                   \
      failed++;                                                                                                \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                           \
    }                                                                                                          \
  } while (0)

/* The exit code of `main`. */
static inline int finish(const char *name) {
  printf("%s: %d passed, %d failed\n", name, passed, failed);
  return failed != 0 || passed == 0;
}

#endif
