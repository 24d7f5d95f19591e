/* Writes down in which order a server receives requests, writes its log, syncs it and answers.
 *
 * UMAB_TRACE names the file to append to. Each line is one of
 *     received FD FIRST-BYTES      a request, or more of one
 *     wrote NAME                   to the log of the database (its name ends with -wal)
 *     syncing NAME, synced NAME    before and after a sync of it that succeeded
 *     answered FD FIRST-BYTES      a response of status 20x
 * While the file UMAB_READONLY exists, files cannot be written, as on a disk that was mounted read-only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void note(const char *what, const char *detail) {
    static int trace = -2;
    if (trace == -2) {
        const char *path = getenv("UMAB_TRACE");
        trace = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    }
    char line[512];
    int length = snprintf(line, sizeof line, "%s %s\n", what, detail);
    if (trace >= 0 && length > 0 && length < (int)sizeof line) syscall(SYS_write, trace, line, (size_t)length);
}

/* Note the start of what goes through a socket, up to the end of its first line. */
static void note_socket(const char *what, int fd, const char *content, size_t length) {
    char detail[128];
    int at = snprintf(detail, sizeof detail, "%d ", fd);
    for (size_t k = 0; k < length && at < 100 && content[k] >= ' ' && content[k] <= '~'; k++) detail[at++] = content[k];
    detail[at] = 0;
    note(what, detail);
}

static int is_socket(int fd) {
    int kind;
    socklen_t size = sizeof kind;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0;
}

/* Whether a file is the log of a database; `name` becomes its name. */
static int is_log(int fd, char *name, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, size - 1);
    if (length < 4) return 0;
    name[length] = 0;
    return strcmp(name + length - 4, "-wal") == 0;
}

static void received(int fd, const void *buffer, ssize_t length) {
    int before = errno;
    if (length > 0 && is_socket(fd)) note_socket("received", fd, buffer, (size_t)length);
    errno = before;
}

static void answering(int fd, const void *buffer, size_t length) {
    int before = errno;
    int is_done = length > 11 && memcmp(buffer, "HTTP/1.1 20", 11) == 0;
    if (is_done && is_socket(fd)) note_socket("answered", fd, buffer, length);
    errno = before;
}

ssize_t read(int fd, void *buffer, size_t count) {
    REAL(ssize_t, "read", int, void *, size_t);
    ssize_t length = real(fd, buffer, count);
    received(fd, buffer, length);
    return length;
}

ssize_t recv(int fd, void *buffer, size_t count, int flags) {
    REAL(ssize_t, "recv", int, void *, size_t, int);
    ssize_t length = real(fd, buffer, count, flags);
    received(fd, buffer, length);
    return length;
}

ssize_t write(int fd, const void *buffer, size_t count) {
    REAL(ssize_t, "write", int, const void *, size_t);
    answering(fd, buffer, count);
    return real(fd, buffer, count);
}

ssize_t send(int fd, const void *buffer, size_t count, int flags) {
    REAL(ssize_t, "send", int, const void *, size_t, int);
    answering(fd, buffer, count);
    return real(fd, buffer, count, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (count > 0) answering(fd, parts[0].iov_base, parts[0].iov_len);
    return real(fd, parts, count);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(ssize_t, "sendmsg", int, const struct msghdr *, int);
    if (message->msg_iovlen > 0) answering(fd, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len);
    return real(fd, message, flags);
}

static int is_readonly(void) {
    const char *path = getenv("UMAB_READONLY");
    return path && access(path, F_OK) == 0;
}

#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *buffer, size_t count, offset_type offset) { \
        REAL(ssize_t, #name, int, const void *, size_t, offset_type); \
        if (is_readonly()) { \
            errno = EROFS; \
            return -1; \
        } \
        ssize_t length = real(fd, buffer, count, offset); \
        int before = errno; \
        char path[256]; \
        if (length > 0 && is_log(fd, path, sizeof path)) note("wrote", path); \
        errno = before; \
        return length; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        char path[256]; \
        int log = is_log(fd, path, sizeof path); \
        if (log) note("syncing", path); \
        int result = real(fd); \
        int before = errno; \
        if (log && result == 0) note("synced", path); \
        errno = before; \
        return result; \
    }
SYNC(fsync)
SYNC(fdatasync)
