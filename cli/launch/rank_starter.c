/* pagewire-rank COMMAND [ARGS]...: starts a rank's program and waits for it. mpiexec alone does not
 * tell which rank failed, nor how: with PAGEWIRE_LAUNCH_DIR set the rank's start and end are
 * written there, for the launcher that watches. The program inherits everything, the descriptors of
 * the process manager too, and dies with its starter. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node/report/output_file.h"
#include "transport/marks/rank.h"

#define EXIT_NOT_EXECUTABLE 126 /* as shells have it */
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNALLED 128 /* and the signal's number */
#define DETAIL_BYTES 1024

typedef struct {
    const char *directory; /* NULL: nobody watches */
    unsigned long number;
} rank;

static void write_record(const rank *me, const char *kind, const char *detail)
{
    if (!me->directory) return;
    char path[PW_OUTPUT_PATH_BYTES], text[DETAIL_BYTES + 128];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int num_bytes =
        snprintf(text, sizeof text, "{\"rank\": %lu, \"time_ns\": %" PRId64 "%09ld, %s}",
                 me->number, (int64_t)now.tv_sec, now.tv_nsec, detail);
    int code = pw_output_path(path, "%s/%lu.%s", me->directory, me->number, kind);
    if (!code) code = pw_output_write(path, text, (size_t)num_bytes);
    if (!code) return;
    int failed = code == PW_ERR_HOST ? errno : ENAMETOOLONG;
    fprintf(stderr, "pagewire: rank %lu: %s: cannot be written: %s%s\n", me->number, path,
            strerror(failed), failed == ENOENT ? "; all hosts of a run must see this folder" : "");
}

/* Past the process manager: see cli/kit/error_stream.py. The pipe has no reader on another host. */
static void open_error_stream(const rank *me)
{
    if (!me->directory) return;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/stderr", me->directory);
    int descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    if (!fcntl(descriptor, F_SETFL, 0)) dup2(descriptor, STDERR_FILENO);
    close(descriptor);
}

/* The kernel kills this process when its parent is gone, however that came about. */
static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it died before prctl could see it */
}

/* What JSON takes as a string's inside: a command may hold any bytes. */
static void escape(const char *text, char *out, size_t num_bytes)
{
    size_t used = 0;
    for (; *text && used + 3 < num_bytes; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') out[used++] = '\\';
        out[used++] = byte < ' ' || byte > '~' ? '?' : (char)byte;
    }
    out[used] = '\0';
}

/* Becomes the program; comes back never. */
static void become(const rank *me, char *const *command)
{
    signal(SIGPIPE, SIG_DFL); /* mpiexec ignores it: see cli/launch/launch.py */
    /* Without address-space randomization: see cli/launch/launch.py, whose own way ends at this
     * host. */
    const int persona = personality(0xffffffff);
    if (persona >= 0) (void)personality((unsigned long)persona | ADDR_NO_RANDOMIZE);
    execvp(command[0], command);
    int failed = errno;
    int code = failed == ENOENT || failed == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    char name[DETAIL_BYTES / 2], detail[DETAIL_BYTES];
    escape(command[0], name, sizeof name);
    fprintf(stderr, "[rank %lu] pagewire: error: cannot start '%s': %s\n", me->number, name,
            strerror(failed));
    snprintf(detail, sizeof detail, "\"reason\": \"cannot start '%s': %s\", \"code\": %d", name,
             strerror(failed), code);
    write_record(me, "note", detail);
    _exit(code);
}

static int wait_for(pid_t program, int *status)
{
    pid_t found;
    do found = waitpid(program, status, 0);
    while (found < 0 && errno == EINTR);
    return found < 0 ? -1 : 0;
}

int main(int num_words, char **words)
{
    if (num_words < 2) {
        fprintf(stderr, "usage: pagewire-rank COMMAND [ARGS]...\n");
        return 2;
    }
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    rank me = {directory && *directory ? directory : NULL, strtoul(pagewire_rank_text(), NULL, 10)};
    pid_t starter = getpid();
    char detail[DETAIL_BYTES];
    die_with(getppid());
    open_error_stream(&me);
    snprintf(detail, sizeof detail, "\"pid\": %ld", (long)starter);
    write_record(&me, "start", detail);
    pid_t program = fork();
    if (program < 0) {
        fprintf(stderr, "[rank %lu] pagewire: error: no new process: %s\n", me.number,
                strerror(errno));
        return EXIT_NOT_EXECUTABLE;
    }
    if (!program) {
        die_with(starter);
        become(&me, words + 1);
    }
    signal(SIGINT, SIG_IGN); /* the program's to handle: this one tells how it ended */
    int status;
    if (wait_for(program, &status)) return 1;
    int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    snprintf(detail, sizeof detail, "\"pid\": %ld, \"code\": %d", (long)program, code);
    write_record(&me, "end", detail);
    return code >= 0 ? code : EXIT_SIGNALLED - code;
}
