#include "transport/marks/use_record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool begins(const char *name, const char *with)
{
    return strncasecmp(name, with, strlen(with)) == 0;
}

/* Fortran's names differ in case and end in underscores. */
static bool initializes(const char *name)
{
    if (begins(name, "MPI_Initialized")) return false;
    return begins(name, "MPI_Init") || begins(name, "MPI_Session_init");
}

/* The process manager's number of this rank, as text. */
static const char *rank_of_environment(void)
{
    const char *const variables[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        if (text && *text && !text[strspn(text, "0123456789")]) return text;
    }
    return "0";
}

void pw_marks_record_use(const char *name)
{
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    if (!directory || !*directory || !initializes(name)) return;
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s.mpi", directory, rank_of_environment());
    if (length < 0 || (size_t)length >= sizeof path) return;
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor >= 0) close(descriptor);
}
