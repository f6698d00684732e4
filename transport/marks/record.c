#include "transport/marks/marked.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "transport/marks/rank.h"

static bool starts_mpi(const char *name)
{
    return strncmp(name, "Init", 4) == 0 || strcmp(name, "Session_init") == 0;
}

/* Path of this rank's record; false where nobody launched it. */
static bool find_path(char *path, size_t room, const char *kind)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    if (!directory || !*directory) return false;
    const int length = snprintf(path, room, "%s/%s.%s", directory, pagewire_rank_text(), kind);
    return length >= 0 && (size_t)length < room;
}

void pw_marks_record_start(const pagewire_marked_call *call)
{
    char path[PATH_MAX];
    if (!starts_mpi(call->name)) return;
    if (!find_path(path, sizeof path, "mpi")) return;
    const int descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor >= 0) close(descriptor);
}

void pw_marks_record_abort(int code)
{
    char path[PATH_MAX], whole[PATH_MAX], text[256];
    struct timespec now;
    const int exit_code = code & 0xff; /* what is left of it: an abort is no success */
    if (pagewire_is_spawned() || !find_path(path, sizeof path, "note")) return;
    if (!find_path(whole, sizeof whole, "abort")) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int length = snprintf(text, sizeof text,
                                "{\"rank\": %s, \"time_ns\": %lld%09ld, \"code\": %d, "
                                "\"reason\": \"called MPI_Abort with code %d\"}",
                                pagewire_rank_text(), (long long)now.tv_sec, now.tv_nsec,
                                exit_code ? exit_code : 1, code);
    const int descriptor = open(whole, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor < 0) return;
    const bool is_written = length > 0 && write(descriptor, text, (size_t)length) == length;
    /* The name appears with the whole text, and only where there is none. */
    if (!close(descriptor) && is_written) (void)!link(whole, path);
    unlink(whole);
}
