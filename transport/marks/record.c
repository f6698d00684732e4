#include "transport/marks/marked.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "transport/marks/rank.h"

#define EXIT_WITHOUT_PROVIDER 1
#define REASON_BYTES (PATH_MAX + 512)
#define NOTE_BYTES (REASON_BYTES + 256)

static bool initializes(const char *name)
{
    return strcmp(name, "Init") == 0 || strcmp(name, "Init_thread") == 0;
}

/* Behind these the MPI has chosen how its bytes go; a session has not before its communicator. */
static bool has_chosen(const char *name)
{
    return initializes(name) || strcmp(name, "Comm_create_from_group") == 0;
}

static bool starts_mpi(const char *name)
{
    return initializes(name) || strcmp(name, "Session_init") == 0;
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

/* For the launcher; reason: without what JSON would escape. */
static void leave_note(int code, const char *reason)
{
    char path[PATH_MAX], whole[PATH_MAX], text[NOTE_BYTES];
    struct timespec now;
    if (pagewire_is_spawned() || !find_path(path, sizeof path, "note")) return;
    if (!find_path(whole, sizeof whole, "abort")) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int length =
        snprintf(text, sizeof text,
                 "{\"rank\": %s, \"time_ns\": %lld%09ld, \"code\": %d, \"reason\": \"%s\"}",
                 pagewire_rank_text(), (long long)now.tv_sec, now.tv_nsec, code, reason);
    const int descriptor = open(whole, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor < 0) return;
    const bool is_written = length > 0 && write(descriptor, text, (size_t)length) == length;
    /* The name appears with the whole text, and only where there is none. */
    if (!close(descriptor) && is_written) (void)!link(whole, path);
    unlink(whole);
}

void pw_marks_record_abort(int code)
{
    char reason[64];
    const int exit_code = code & 0xff; /* what is left of it: an abort is no success */
    snprintf(reason, sizeof reason, "called MPI_Abort with code %d", code);
    leave_note(exit_code ? exit_code : 1, reason);
}

void pw_marks_check_provider(const pagewire_marked_call *call)
{
    char reason[REASON_BYTES];
    Dl_info info;
    const char *settings = getenv("PAGEWIRE_NODE_FILE");
    if (!has_chosen(call->name) || !settings || !*settings) return;
    void *own = pw_marks_find("MPI_Init\0PMPI_Init\0");
    const bool is_known = own && dladdr(own, &info) && !strpbrk(info.dli_fname, "\"\\");
    snprintf(reason, sizeof reason,
             "is past MPI_%s without the provider 'pagewire', so its bytes would go around the "
             "NI: the MPI of %s has no libfabric of 1.17 or newer, or another choice was made "
             "(FI_PROVIDER, FI_PROVIDER_PATH, MPIR_CVAR_CH4_NETMOD or OMPI_MCA_pml, by the program "
             "or a wrapper). Leave --mpi out, so that pagewire chooses the MPI; `pagewire info` "
             "names what it has",
             call->name, is_known ? info.dli_fname : "the program");
    leave_note(EXIT_WITHOUT_PROVIDER, reason);
    /* The launcher tells it once for all ranks, and ends them when they have had time to get here:
     * a rank that is missed in MPI_Init makes the others fail with words of their own. */
    if (getenv("PAGEWIRE_LAUNCH_ID") && !pagewire_is_spawned()) return;
    fprintf(stderr, "pagewire: rank %s %s\n", pagewire_rank_text(), reason);
    _exit(EXIT_WITHOUT_PROVIDER);
}
