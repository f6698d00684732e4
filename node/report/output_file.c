#include "node/report/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <inttypes.h>

int pw_output_path(char out[PW_OUTPUT_PATH_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, PW_OUTPUT_PATH_BYTES, format, arguments);
    va_end(arguments);
    return length < 0 || length >= PW_OUTPUT_PATH_BYTES ? PW_ERR_INVALID : PW_OK;
}

int pw_output_put(int descriptor, const void *data, size_t num_bytes)
{
    for (const char *at = data; num_bytes;) {
        const ssize_t count = write(descriptor, at, num_bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        at += count;
        num_bytes -= (size_t)count;
    }
    return 0;
}

/* Closes the descriptor. */
static int write_all(int descriptor, const void *data, size_t num_bytes)
{
    int failed = pw_output_put(descriptor, data, num_bytes);
    if (close(descriptor) && !failed) failed = errno; /* full, as some tell only here */
    errno = failed;
    return failed ? PW_ERR_HOST : PW_OK;
}

/* Names in /dev and /proc stand for something that is open elsewhere. */
static bool is_elsewhere(const char *path)
{
    char folder[PW_OUTPUT_PATH_BYTES], real[PATH_MAX];
    if (pw_output_path(folder, "%s", path)) return false;
    char *slash = strrchr(folder, '/');
    if (slash == folder) slash++;
    if (slash) *slash = '\0';
    if (!realpath(slash ? folder : ".", real)) return false;
    return !strcmp(real, "/dev") || !strncmp(real, "/proc/", 6);
}

/* Under a second name first, so that a reader never sees half of it. */
static int replace(const char *target, mode_t mode, const void *data, size_t num_bytes)
{
    char partial[PW_OUTPUT_PATH_BYTES];
    if (pw_output_path(partial, "%s.%ld.partial", target, (long)getpid())) return PW_ERR_INVALID;
    int descriptor = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return PW_ERR_HOST;
    int code = PW_OK;
    if (mode && fchmod(descriptor, mode)) {
        code = PW_ERR_HOST;
        int failed = errno;
        close(descriptor);
        errno = failed;
    } else {
        code = write_all(descriptor, data, num_bytes);
    }
    if (!code && rename(partial, target)) code = PW_ERR_HOST;
    int failed = errno;
    if (code) unlink(partial);
    errno = failed;
    return code;
}

int pw_output_write(const char *path, const void *data, size_t num_bytes)
{
    struct stat found;
    bool is_there = !stat(path, &found);
    if (!is_there && errno != ENOENT) return PW_ERR_HOST;
    if (is_elsewhere(path) || (is_there && !S_ISREG(found.st_mode))) {
        int descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        return descriptor < 0 ? PW_ERR_HOST : write_all(descriptor, data, num_bytes);
    }
    char target[PATH_MAX], text[PW_OUTPUT_PATH_BYTES];
    if (is_there) {
        if (!realpath(path, target)) return PW_ERR_HOST;
        return replace(target, found.st_mode & 07777, data, num_bytes);
    }
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return replace(path, 0, data, num_bytes);
    /* A link to what is not there yet: made there, as seen from the link's folder. */
    target[length] = '\0';
    const char *slash = strrchr(path, '/');
    int folder_bytes = target[0] == '/' || !slash ? 0 : (int)(slash - path + 1);
    if (pw_output_path(text, "%.*s%s", folder_bytes, path, target)) return PW_ERR_INVALID;
    return pw_output_write(text, data, num_bytes);
}

static int refuse_replay(char *reason, const char *path, int code, const char *why)
{
    int failed = errno;
    snprintf(reason, PW_CONFIG_REASON_BYTES,
             "run.compute_replay: '%.600s' cannot be read (%s); record it first with "
             "run.compute_record and the same number of ranks",
             path, why);
    errno = failed;
    return code;
}

/* num_bytes bytes and no more: 0; else -1 and errno, 0 when the file has fewer. */
static int read_all(int descriptor, char *out, size_t num_bytes)
{
    while (num_bytes) {
        ssize_t count = read(descriptor, out, num_bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = 0;
        if (count <= 0) return -1;
        out += count;
        num_bytes -= (size_t)count;
    }
    return 0;
}

int pw_durations_read(const char *file, uint32_t rank, int64_t **out, uint64_t *num_durations,
                      char reason[PW_CONFIG_REASON_BYTES])
{
    char path[PW_OUTPUT_PATH_BYTES];
    struct stat found;
    if (pw_output_path(path, "%s.%" PRIu32, file, rank))
        return refuse_replay(reason, file, PW_ERR_INVALID, "the path is too long");
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &found)) {
        int code = refuse_replay(reason, path, PW_ERR_HOST, strerror(errno));
        int failed = errno;
        if (descriptor >= 0) close(descriptor);
        errno = failed;
        return code;
    }
    int code = PW_OK;
    size_t num_bytes = (size_t)found.st_size;
    int64_t *durations = malloc(num_bytes ? num_bytes : 1);
    if (!S_ISREG(found.st_mode))
        code = refuse_replay(reason, path, PW_ERR_INVALID, "it is no regular file");
    else if (num_bytes % sizeof *durations)
        code = refuse_replay(reason, path, PW_ERR_INVALID, "it is no list of 8-byte numbers");
    else if (!durations) code = refuse_replay(reason, path, PW_ERR_NOMEM, "no memory for it");
    else if (read_all(descriptor, (char *)durations, num_bytes))
        code = refuse_replay(reason, path, errno ? PW_ERR_HOST : PW_ERR_INVALID,
                             errno ? strerror(errno) : "it became shorter");
    int failed = errno;
    close(descriptor);
    if (code) {
        free(durations);
    } else {
        *out = durations;
        *num_durations = num_bytes / sizeof *durations;
    }
    errno = failed;
    return code;
}

void pw_durations_free(int64_t *durations_ns) { free(durations_ns); }

int pw_durations_write(const char *file, uint32_t rank, const int64_t *durations_ns,
                       uint64_t num_durations, char reason[PW_CONFIG_REASON_BYTES])
{
    char path[PW_OUTPUT_PATH_BYTES];
    int code = pw_output_path(path, "%s.%" PRIu32, file, rank);
    if (!code) code = pw_output_write(path, durations_ns, num_durations * sizeof *durations_ns);
    int failed = errno;
    if (code)
        snprintf(reason, PW_CONFIG_REASON_BYTES,
                 "run.compute_record: '%.600s.%" PRIu32 "' was not written: %s", file, rank,
                 code == PW_ERR_HOST ? strerror(failed) : "the path is too long");
    errno = failed;
    return code;
}
