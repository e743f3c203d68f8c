/* Lets one call of a program fail: preloaded into the command under test by faults.rs (Linux).

   Counted are the calls that concern files below the folder B2KIT_FAULT_FOLDER, or relative names. Environment:

   B2KIT_FAULT_LOG    where to write a line for each counted call, or only for the one that was made to fail
   B2KIT_FAULT_AT     the number of that call, from 0; without it all calls are logged and none fails
   B2KIT_FAULT_ERROR  the error that it returns, as a number; 0: a read or write of half of the bytes
   B2KIT_FAULT_LAST   1: all later calls that need space fail, too
   B2KIT_FAULT_KILL   before, half or after: instead of failing, the process is killed there */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 1024
enum { FAIL, LOG, OFF };
/* What a call may be made to do, besides failing. */
enum { SPACE = 1, PARTIAL = 2 };

static atomic_char watched[FDS];
static atomic_long calls;
static int mode = OFF, log_fd = -1, error_no, lasting, in_folder;
static long fail_at = -1;
static const char *folder, *killing;

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("B2KIT_FAULT_LOG"), *at = getenv("B2KIT_FAULT_AT");
    folder = getenv("B2KIT_FAULT_FOLDER");
    killing = getenv("B2KIT_FAULT_KILL");
    if (!log || !folder) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FDS - 24);
    syscall(SYS_close, fd);
    in_folder = (int)strlen(folder);
    if (at) fail_at = atol(at);
    if (getenv("B2KIT_FAULT_ERROR")) error_no = atoi(getenv("B2KIT_FAULT_ERROR"));
    lasting = getenv("B2KIT_FAULT_LAST") != NULL;
    mode = at ? FAIL : LOG;
}

static int is_ours(const char *path) {
    return mode != OFF && path && (path[0] != '/' || strncmp(path, folder, in_folder) == 0);
}

static int is_watched(int fd) { return mode != OFF && fd >= 0 && fd < FDS && watched[fd]; }

/* The standard library of Rust calls statx without a name to find out whether it is there; the compiler must not conclude
   from its declaration that there is one. */
__attribute__((noipa)) static int is_statx_ours(int at, const char *path) {
    return path && (path[0] ? is_ours(path) : is_watched(at));
}

static void watch(int fd, int on) {
    if (fd >= 0 && fd < FDS) watched[fd] = (char)on;
}

static void say(const char *call, const char *path, int fd) {
    char link[64], name[256] = "", line[512];
    if (!path) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        long n = syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1);
        if (n > 0) name[n] = 0;
        path = name;
    }
    int n = snprintf(line, sizeof line, "%s %s\n", call, path);
    syscall(SYS_write, log_fd, line, n);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a call. -1: it fails with errno; -2: half of its bytes; otherwise it goes on. */
static int meet(const char *call, const char *path, int fd, int may) {
    int hit = 0, saved = errno;
    long number = atomic_fetch_add(&calls, 1);
    if (mode == LOG) say(call, path, fd);
    if (mode == FAIL) {
        if (number == fail_at) {
            say(call, path, fd);
            hit = 1;
        } else if (lasting && number > fail_at && (may & SPACE)) {
            hit = 1;
        }
    }
    errno = saved;
    if (!hit) return 0;
    if (killing) {
        if (!strcmp(killing, "before")) die();
        if (!strcmp(killing, "half") && (may & PARTIAL)) return -2;
        return 1;
    }
    /* A single byte has no half. */
    if (error_no == 0 && number == fail_at) return may & PARTIAL ? -2 : 0;
    errno = error_no ? error_no : ENOSPC;
    return -1;
}

static void passed(int met) {
    if (killing && met != 0) die();
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that only fails or succeeds. */
#define PLAIN(type, name, args, values, ours, path, fd, may) \
    type name args { \
        NEXT(name); \
        if (!(ours)) return next values; \
        int met = meet(#name, path, fd, may); \
        if (met == -1) return -1; \
        type result = next values; \
        passed(met); \
        return result; \
    }

/* A call that reads or writes `count` bytes. */
#define BYTES(name, args, values, half, may) \
    ssize_t name args { \
        NEXT(name); \
        if (!is_watched(fd)) return next values; \
        int met = meet(#name, NULL, fd, (may) | (count > 1 ? PARTIAL : 0)); \
        if (met == -1) return -1; \
        ssize_t result = met == -2 ? next half : next values; \
        passed(met); \
        return result; \
    }

BYTES(write, (int fd, const void *data, size_t count), (fd, data, count), (fd, data, count / 2), SPACE)
BYTES(read, (int fd, void *data, size_t count), (fd, data, count), (fd, data, count / 2), 0)
BYTES(pwrite64, (int fd, const void *data, size_t count, off64_t at), (fd, data, count, at),
      (fd, data, count / 2, at), SPACE)
BYTES(pread64, (int fd, void *data, size_t count, off64_t at), (fd, data, count, at), (fd, data, count / 2, at), 0)
BYTES(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), (fd, parts, count / 2), SPACE)
BYTES(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count), (fd, parts, count / 2), 0)

ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t count, unsigned flags) {
    NEXT(copy_file_range);
    int ours = is_watched(fd) || is_watched(from);
    int met = ours ? meet("copy_file_range", NULL, fd, SPACE | PARTIAL) : 0;
    if (met == -1) return -1;
    ssize_t result = next(from, at, fd, to, met == -2 ? 4096 : count, flags);
    passed(met);
    return result;
}

PLAIN(int, fsync, (int fd), (fd), is_watched(fd), NULL, fd, SPACE)
PLAIN(int, fdatasync, (int fd), (fd), is_watched(fd), NULL, fd, SPACE)
PLAIN(int, ftruncate64, (int fd, off64_t len), (fd, len), is_watched(fd), NULL, fd, SPACE)
PLAIN(int, fallocate64, (int fd, int how, off64_t at, off64_t len), (fd, how, at, len), is_watched(fd), NULL, fd, SPACE)
PLAIN(int, flock, (int fd, int how), (fd, how), is_watched(fd), NULL, fd, 0)
PLAIN(off64_t, lseek64, (int fd, off64_t at, int from), (fd, at, from), is_watched(fd), NULL, fd, 0)
PLAIN(int, rename, (const char *from, const char *to), (from, to), is_ours(to), to, -1, SPACE)
PLAIN(int, renameat2, (int a, const char *from, int b, const char *to, unsigned how), (a, from, b, to, how),
      is_ours(to), to, -1, SPACE)
PLAIN(int, link, (const char *from, const char *to), (from, to), is_ours(to), to, -1, SPACE)
PLAIN(int, linkat, (int a, const char *from, int b, const char *to, int how), (a, from, b, to, how), is_ours(to), to,
      -1, SPACE)
PLAIN(int, unlink, (const char *path), (path), is_ours(path), path, -1, 0)
PLAIN(int, unlinkat, (int at, const char *path, int how), (at, path, how), is_ours(path), path, -1, 0)
PLAIN(int, rmdir, (const char *path), (path), is_ours(path), path, -1, 0)
PLAIN(int, mkdir, (const char *path, mode_t how), (path, how), is_ours(path), path, -1, SPACE)
PLAIN(int, chmod, (const char *path, mode_t how), (path, how), is_ours(path), path, -1, 0)
PLAIN(int, stat64, (const char *path, struct stat64 *to), (path, to), is_ours(path), path, -1, 0)
PLAIN(int, lstat64, (const char *path, struct stat64 *to), (path, to), is_ours(path), path, -1, 0)
PLAIN(int, fstat64, (int fd, struct stat64 *to), (fd, to), is_watched(fd), NULL, fd, 0)
PLAIN(int, statx, (int at, const char *restrict path, int how, unsigned mask, struct statx *restrict to),
      (at, path, how, mask, to), is_statx_ours(at, path), path[0] ? path : NULL, at, 0)

/* The descriptor is closed in any case, as Linux does. */
int close(int fd) {
    NEXT(close);
    if (!is_watched(fd)) return next(fd);
    watch(fd, 0);
    int met = meet("close", "", fd, 0), why = errno;
    int result = next(fd);
    passed(met);
    if (met == -1) {
        errno = why;
        return -1;
    }
    return result;
}

static int opened(int fd, int met) {
    watch(fd, 1);
    passed(met);
    return fd;
}

#define OPEN(name, args, path, values) \
    int name args { \
        NEXT(name); \
        mode_t how = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list list; \
            va_start(list, flags); \
            how = va_arg(list, mode_t); \
            va_end(list); \
        } \
        if (!is_ours(path)) return next values; \
        int creates = (flags & O_CREAT) != 0; \
        int met = meet(creates ? "open-create" : "open", path, -1, creates ? SPACE : 0); \
        return met == -1 ? -1 : opened(next values, met); \
    }

OPEN(open, (const char *path, int flags, ...), path, (path, flags, how))
OPEN(open64, (const char *path, int flags, ...), path, (path, flags, how))
OPEN(openat, (int at, const char *path, int flags, ...), path, (at, path, flags, how))
OPEN(openat64, (int at, const char *path, int flags, ...), path, (at, path, flags, how))

/* Files are duplicated this way. */
int fcntl(int fd, int what, ...) {
    NEXT(fcntl);
    va_list list;
    va_start(list, what);
    long value = va_arg(list, long);
    va_end(list);
    if (!is_watched(fd) || (what != F_DUPFD_CLOEXEC && what != F_DUPFD)) return next(fd, what, value);
    int met = meet("dup", NULL, fd, 0);
    return met == -1 ? -1 : opened(next(fd, what, value), met);
}

DIR *opendir(const char *path) {
    NEXT(opendir);
    if (!is_ours(path)) return next(path);
    int met = meet("opendir", path, -1, 0);
    if (met == -1) return NULL;
    DIR *result = next(path);
    if (result) watch(dirfd(result), 1);
    passed(met);
    return result;
}

struct dirent64 *readdir64(DIR *dir) {
    NEXT(readdir64);
    if (!is_watched(dirfd(dir))) return next(dir);
    int met = meet("readdir", NULL, dirfd(dir), 0);
    if (met == -1) return NULL;
    struct dirent64 *result = next(dir);
    passed(met);
    return result;
}
