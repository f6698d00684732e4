#include "transport/node/durations.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/node/output_file.h"

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
