/* Preloaded into the program under attack: fails the Nth call of a kind on files below a folder, and moves its clock.

   FAULT_OPS     names such as "write,fsync"; FAULT_AT the first call that fails, from 1; FAULT_COUNT how many (0: all later ones)
   FAULT_ERRNO   the error; FAULT_BELOW the folder; FAULT_MARK a file that is created when a call has failed
   CLOCK_BASE    the wall clock starts at this second; CLOCK_FROZEN: and stands still
   CLOCK_STEP    seconds that it jumps by after CLOCK_AFTER readings; the monotonic clock is left alone */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls;

static long setting(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 0;
}

static int is_below(const char *path) {
    const char *folder = getenv("FAULT_BELOW");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int fails(const char *name, const char *path) {
    const char *wanted = getenv("FAULT_OPS");
    if (!wanted || !is_below(path)) return 0;
    const char *found = strstr(wanted, name);
    size_t length = strlen(name);
    if (!found || (found != wanted && found[-1] != ',') || (found[length] && found[length] != ',')) return 0;
    long call = atomic_fetch_add(&calls, 1) + 1, first = setting("FAULT_AT"), count = setting("FAULT_COUNT");
    if (call < first || (count && call >= first + count)) return 0;
    const char *mark = getenv("FAULT_MARK");
    if (mark) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600);
        if (file >= 0) syscall(SYS_close, file);
    }
    errno = (int)setting("FAULT_ERRNO");
    return 1;
}

static int fails_on(const char *name, int file) {
    char link[64], path[PATH_MAX];
    if (!getenv("FAULT_OPS")) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    int before = errno;
    if (fails(name, path)) return 1;
    errno = before;
    return 0;
}

static int fails_at(const char *name, const char *path) {
    char whole[PATH_MAX];
    if (!getenv("FAULT_OPS")) return 0;
    if (path[0] == '/' || !getcwd(whole, sizeof whole)) return fails(name, path);
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    return fails(name, whole);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t size) {
    return fails_on("write", file) ? -1 : REAL(write)(file, bytes, size);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails_on("write", file) ? -1 : REAL(writev)(file, parts, count);
}
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t offset) {
    return fails_on("write", file) ? -1 : REAL(pwrite64)(file, bytes, size, offset);
}
int fsync(int file) { return fails_on("fsync", file) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails_on("fsync", file) ? -1 : REAL(fdatasync)(file); }
int ftruncate64(int file, off64_t size) { return fails_on("truncate", file) ? -1 : REAL(ftruncate64)(file, size); }
int flock(int file, int kind) {
    extern int flock(int, int);
    return fails_on("flock", file) ? -1 : REAL(flock)(file, kind);
}
int rename(const char *from, const char *to) { return fails_at("rename", to) ? -1 : REAL(rename)(from, to); }
int mkdir(const char *path, mode_t mode) {
    extern int mkdir(const char *, mode_t);
    return fails_at("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if ((flags & (O_CREAT | O_WRONLY | O_RDWR)) && fails_at("open", path)) return -1;
    return REAL(open64)(path, flags, mode);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static atomic_long readings, offset;
    int result = REAL(clock_gettime)(clock, time);
    const char *base = getenv("CLOCK_BASE");
    if (clock != CLOCK_REALTIME || result != 0 || (!base && !getenv("CLOCK_STEP"))) return result;
    if (base) {
        long zero = 0, start = atol(base) - time->tv_sec;
        atomic_compare_exchange_strong(&offset, &zero, start);
        time->tv_sec += atomic_load(&offset);
        if (getenv("CLOCK_FROZEN")) *time = (struct timespec){atol(base), 250000000};
    }
    if (atomic_fetch_add(&readings, 1) >= setting("CLOCK_AFTER")) time->tv_sec += setting("CLOCK_STEP");
    return result;
}
