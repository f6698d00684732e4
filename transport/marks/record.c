#include "transport/marks/record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/marks/rank.h"

static bool starts_mpi(const char *name)
{
    return strncmp(name, "Init", 4) == 0 || strcmp(name, "Session_init") == 0;
}

void pw_marks_record_start(const pagewire_marked_call *call)
{
    char path[PATH_MAX];
    if (!starts_mpi(call->name)) return;
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    if (!directory || !*directory) return;
    const int length = snprintf(path, sizeof path, "%s/%s.mpi", directory, pagewire_rank_text());
    if (length < 0 || (size_t)length >= sizeof path) return;
    const int descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor >= 0) close(descriptor);
}
