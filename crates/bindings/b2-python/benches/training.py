"""Crops per second of `b2kit.training` next to python-blosc2, for the files and the way of reading of nnU-Net.

    python benches/training.py [--filter shuffle none] [--processes 1 8] [--rounds 3] [--batches 20] [--delay MILLISECONDS]

Cases are a float32 image with noise and int8 labels (1 x 150 x 192 x 192, LZ4HC level 5, chunks of 80 x 64 x 64, blocks of 16^3). A batch
is two crops of 96^3 of random cases, with their labels. python-blosc2 opens each file with mmap for each crop, as nnU-Net does, or without;
both ways are measured. Every measurement is a process, or that many forked ones, in interleaved rounds. Prints crops per second of the
clock and of CPU time, and the medians of their ratios to python-blosc2 with mmap.

`--delay` injects a delay into every call that opens, inspects or reads the files, as on a network file system, by a library that is loaded
first (Linux, cc). Where a file is mapped, each first access to a window of 128 KiB (the kernel's readahead) is one call. The calls are counted.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

SHAPE, CROP, BATCH, CASES = (150, 192, 192), (96, 96, 96), 2, 6

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW = 128 << 10, MAPS = 4096 };
static struct { char *start; size_t len; int fd; off_t offset; } maps[MAPS];
static long *calls; /* shared with children of forks */
static struct timespec delay;
static const char *folder;

__attribute__((constructor)) static void start(void) {
    folder = getenv("SLOW_FOLDER");
    double ms = atof(getenv("SLOW_MS"));
    delay.tv_nsec = (long)(ms * 1e6);
    calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
long slow_calls(void) { return __atomic_load_n(calls, __ATOMIC_SEQ_CST); }
static void slow(void) {
    int kept = errno;
    __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST);
    nanosleep(&delay, NULL);
    errno = kept;
}
static int of_path(const char *path) { return folder && path && strncmp(path, folder, strlen(folder)) == 0 && strstr(path, ".b2nd"); }
static int of_fd(int fd) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlink, name, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return of_path(path);
}
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPEN(name) int name(const char *path, int flags, ...) { \
    va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list); \
    if (of_path(path)) slow(); \
    return NEXT(name)(path, flags, mode); }
OPEN(open)
OPEN(open64)
int openat(int dir, const char *path, int flags, ...) {
    va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list);
    if (of_path(path)) slow();
    return NEXT(openat)(dir, path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) { if (of_path(path)) slow(); return NEXT(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { if (of_path(path)) slow(); return NEXT(fopen64)(path, mode); }
/* Streams read at least a page at once; only what goes to the file is a call, which is at most once for each fread here. */
size_t fread(void *to, size_t size, size_t n, FILE *file) { if (of_fd(fileno(file))) slow(); return NEXT(fread)(to, size, n, file); }
ssize_t read(int fd, void *to, size_t n) { if (of_fd(fd)) slow(); return NEXT(read)(fd, to, n); }
ssize_t pread(int fd, void *to, size_t n, off_t at) { if (of_fd(fd)) slow(); return NEXT(pread)(fd, to, n, at); }
ssize_t pread64(int fd, void *to, size_t n, off_t at) { if (of_fd(fd)) slow(); return NEXT(pread64)(fd, to, n, at); }
int stat(const char *path, struct stat *to) { if (of_path(path)) slow(); return NEXT(stat)(path, to); }
int stat64(const char *path, struct stat64 *to) { if (of_path(path)) slow(); return NEXT(stat64)(path, to); }
int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict to) {
    if (of_path(path)) slow();
    return NEXT(statx)(dir, path, flags, mask, to);
}

/* A mapped file is memory without access. At a fault one window of it is read. */
static void fault(int number, siginfo_t *info, void *context) {
    char *at = info->si_addr;
    for (int n = 0; n < MAPS; n++) {
        char *start = maps[n].start;
        if (!start || at < start || at >= start + maps[n].len) continue;
        size_t first = (size_t)(at - start) / WINDOW * WINDOW;
        size_t len = maps[n].len - first < WINDOW ? maps[n].len - first : WINDOW;
        slow();
        mmap(start + first, len, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, maps[n].fd, maps[n].offset + (off_t)first);
        return;
    }
    signal(number, SIG_DFL);
}
static void *map(void *hint, size_t len, int protection, int flags, int fd, off_t offset) {
    void *(*next)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    if (fd < 0 || !of_fd(fd)) return next(hint, len, protection, flags, fd, offset);
    char *start = next(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int n = 0; n < MAPS; n++)
        if (!maps[n].start) {
            maps[n].len = len; maps[n].fd = dup(fd); maps[n].offset = offset; maps[n].start = start;
            break;
        }
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    slow();
    return start;
}
void *mmap(void *hint, size_t len, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_FIXED) return (void *)syscall(SYS_mmap, hint, len, protection, flags, fd, offset);
    return map(hint, len, protection, flags, fd, offset);
}
void *mmap64(void *hint, size_t len, int protection, int flags, int fd, off_t offset) { return mmap(hint, len, protection, flags, fd, offset); }
int munmap(void *start, size_t len) {
    for (int n = 0; n < MAPS; n++)
        if (maps[n].start == start && start) { close(maps[n].fd); maps[n].start = NULL; }
    return (int)syscall(SYS_munmap, start, len);
}
"""


def write(folder, setting):
    import blosc2

    rng = np.random.default_rng(0)
    z = np.linspace(0, 6, max(SHAPE), dtype="f4")
    smooth = np.sin(z)[: SHAPE[0], None, None] * np.cos(z)[None, : SHAPE[1], None] + np.sin(z * 1.3)[None, None, : SHAPE[2]]
    for case in range(CASES):
        image = np.round(smooth * 400 + rng.standard_normal(SHAPE) * 30).astype("f4")
        image = ((image - image.mean()) / image.std()).astype("f4")
        for name, x in (("image", image), ("labels", (smooth > 0.5 + case / 20).astype("i1"))):
            cparams = {"codec": blosc2.Codec.LZ4HC, "clevel": 5, "nthreads": 1, "filters_meta": [0]}
            cparams["filters"] = [blosc2.Filter.SHUFFLE if setting == "shuffle" else blosc2.Filter.NOFILTER]
            path = os.path.join(folder, f"{case}_{name}.b2nd")
            blosc2.asarray(x[None].copy(), urlpath=path, mode="w", chunks=(1, 80, 64, 64), blocks=(1, 16, 16, 16), cparams=cparams)


def cases(folder):
    return [{name: os.path.join(folder, f"{case}_{name}.b2nd") for name in ("image", "labels")} for case in range(CASES)]


def theirs(folder, batches, seed, mmap_mode="r"):
    import blosc2

    blosc2.set_nthreads(1)
    files, rng = cases(folder), np.random.default_rng(seed)
    for _ in range(batches):
        batch = {"image": np.empty((BATCH, 1, *CROP), "f4"), "labels": np.empty((BATCH, 1, *CROP), "i1")}
        for at, case in enumerate(rng.integers(0, CASES, BATCH)):
            start = [int(rng.integers(0, length - side + 1)) for length, side in zip(SHAPE, CROP)]
            key = (slice(None), *(slice(first, first + side) for first, side in zip(start, CROP)))
            for name, path in files[case].items():
                batch[name][at] = blosc2.open(path, mode="r", mmap_mode=mmap_mode, dparams={"nthreads": 1})[key]
        yield batch


def theirs_without_mmap(folder, batches, seed):
    return theirs(folder, batches, seed, None)


def ours(folder, batches, seed, prefetch=0, scheme=""):
    from b2kit.training import CropDataset

    files = [{name: scheme + path for name, path in case.items()} for case in cases(folder)]
    yield from CropDataset(files, CROP, batch=BATCH, batches=batches, seed=seed, threads=1, prefetch=prefetch)


def ours_prefetch_2(folder, batches, seed):
    return ours(folder, batches, seed, 2)


def ours_prefetch_16(folder, batches, seed):
    return ours(folder, batches, seed, 16)


def ours_by_url(folder, batches, seed):
    return ours(folder, batches, seed, 2, "file://")


WAYS = {way.__name__: way for way in (theirs, theirs_without_mmap, ours, ours_prefetch_2, ours_prefetch_16, ours_by_url)}


def work(way, folder, batches, seed):
    total = 0.0
    for batch in WAYS[way](folder, batches, seed):
        total += float(batch["image"][0, 0, 0, 0, 0])
    return total


def calls():
    import ctypes

    return ctypes.CDLL(None).slow_calls() if "SLOW_MS" in os.environ else 0


def cpu_time():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def child(way, folder, processes, batches, seed):
    work(way, folder, 2, 99)
    cpu, clock, before = cpu_time(), time.perf_counter(), calls()
    if processes == 1:
        work(way, folder, batches, seed)
    else:
        children = []
        for n in range(processes):
            children.append(os.fork())
            if children[-1] == 0:
                work(way, folder, batches, seed * 100 + n)
                os._exit(0)
        if any(os.waitpid(each, 0)[1] for each in children):
            sys.exit("a worker failed")
    clock = time.perf_counter() - clock
    cpu = cpu_time() - cpu
    crops = processes * batches * BATCH
    print(json.dumps([crops / clock, crops / cpu, (calls() - before) / crops]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", nargs="*", default=["shuffle", "none"])
    parser.add_argument("--processes", nargs="*", type=int, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        way, folder, *numbers = given.child
        return child(way, folder, *map(int, numbers))
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if given.delay:
            library = os.path.join(folder, "slow.so")
            subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=SHIM, text=True, check=True)
            env |= {"LD_PRELOAD": library, "SLOW_FOLDER": folder, "SLOW_MS": str(given.delay)}
        for setting in given.filter:
            write(folder, setting)
            for processes in given.processes:
                found = {way: [] for way in given.ways}
                for seed in range(given.rounds):
                    for way in found:
                        command = [sys.executable, __file__, "--child", way, folder, *map(str, (processes, given.batches, seed))]
                        done = subprocess.run(command, env=env, capture_output=True, text=True)
                        if done.returncode:
                            sys.exit(f"{way}: {done.stderr}")
                        found[way].append(json.loads(done.stdout))
                for way, rates in found.items():
                    ratio = [statistics.median(a[k] / b[k] for a, b in zip(rates, found[given.ways[0]])) for k in (0, 1)]
                    clock, cpu, count = (statistics.median(rate[k] for rate in rates) for k in range(3))
                    print(f"{setting:8}{processes:2} processes {way:20} {clock:7.1f} crops/s ({ratio[0]:.2f})   {cpu:7.1f} per CPU second "
                          f"({ratio[1]:.2f})   {count:6.1f} calls per crop", flush=True)


if __name__ == "__main__":
    main()
