#include "transport/sockets/agent/agent.h"
#include "node/clock.h"
#include "transport/sockets/program_calls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAREWELL_NS INT64_C(250000000) /* for servers that end with their last client */
#define GRACE_NS INT64_C(10000000000)  /* between SIGTERM and SIGKILL */
#define EXIT_NOT_STARTED 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNALLED 128

int pw_children_init(pw_children *self, int *fd)
{
    *self = (pw_children){.num_programs = 0};
    sigemptyset(&self->signals);
    sigaddset(&self->signals, SIGCHLD);
    sigaddset(&self->signals, SIGINT);
    sigaddset(&self->signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &self->signals, NULL);
    /* What programs leave behind becomes this process's, which ends it. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) || getrlimit(RLIMIT_NOFILE, &self->descriptors)) return -1;
    *fd = signalfd(-1, &self->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    return *fd < 0 ? -1 : 0;
}

#define PATHS_BYTES 4096

/* A path, or its first num_chars, and behind it what the variable has. False: too long. */
static bool prepend(const char *path, int num_chars, const char *variable, char out[PATHS_BYTES])
{
    const char *before = getenv(variable);
    const int length = snprintf(out, PATHS_BYTES, "%.*s%s%s", num_chars, path, before ? ":" : "",
                                before ? before : "");
    return length >= 0 && length < PATHS_BYTES;
}

static void become(const pw_children *self, char **command, const char *library,
                   const char *variable)
{
    char preload[PATHS_BYTES], folders[PATHS_BYTES];
    const char *slash = strrchr(library, '/');
    const bool by_name = slash && strchr(library, ' '); /* at which the loader cuts LD_PRELOAD */
    const bool fits =
        prepend(by_name ? slash + 1 : library, -1, "LD_PRELOAD", preload) &&
        (!by_name || prepend(library, (int)(slash - library), "LD_LIBRARY_PATH", folders));
    setrlimit(RLIMIT_NOFILE, &self->descriptors);
    sigprocmask(SIG_UNBLOCK, &self->signals, NULL);
    if (!fits) errno = E2BIG;
    else {
        setenv(PW_AGENT_VARIABLE, variable, 1);
        unsetenv(PW_ENTERED_VARIABLE);
        setenv("LD_PRELOAD", preload, 1);
        if (by_name) setenv("LD_LIBRARY_PATH", folders, 1);
        execvp(command[0], command);
    }
    int error = errno;
    fprintf(stderr, "pagewire-sockets: error: %s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_STARTED);
}

int pw_children_prepare(pw_children *self, char **command, const char *library,
                        const char *variable)
{
    char byte;
    int gate[2];
    if (pipe2(gate, O_CLOEXEC)) return -1;
    pid_t agent = getpid(), child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_UNBLOCK, &self->signals, NULL);
        if (getppid() == agent && read(gate[0], &byte, 1) == 1)
            become(self, command, library, variable);
        _exit(EXIT_NOT_STARTED);
    }
    close(gate[0]);
    self->names[self->num_programs] = command[0];
    self->gates[self->num_programs] = gate[1];
    self->programs[self->num_programs++] = child;
    return 0;
}

void pw_children_begin(pw_children *self)
{
    int gate = self->gates[self->num_begun++];
    (void)!write(gate, "", 1);
    close(gate);
}

static void signal_programs(const pw_children *self, int number)
{
    for (uint32_t i = 0; i < self->num_programs; i++)
        if (self->programs[i]) kill(self->programs[i], number);
}

static bool is_own_child(const char *name)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *behind = strrchr(text, ')'); /* the program's name may have any character */
    return behind && sscanf(behind + 1, " %*c %d", &parent) == 1 && parent == getpid();
}

/* Programs, and what has become a child by its parent's end. */
static void signal_all(int number)
{
    DIR *processes = opendir("/proc");
    for (const struct dirent *entry; processes && (entry = readdir(processes));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_own_child(entry->d_name))
            kill((pid_t)atoi(entry->d_name), number);
    if (processes) closedir(processes);
}

/* false: there is no child at all. */
static bool collect(pw_children *self)
{
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < self->num_programs; i++)
            if (self->programs[i] == ended) {
                self->programs[i] = 0;
                self->exit_codes[i] =
                    WIFSIGNALED(status) ? EXIT_SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
                if (self->exit_codes[i] && !self->last_ended_ns && !self->ending_ns &&
                    i < self->num_programs - 1)
                    fprintf(stderr, "pagewire-sockets: node %u: %s has ended with exit code %d\n",
                            i, self->names[i], self->exit_codes[i]);
            }
    return ended == 0;
}

bool pw_children_reap(pw_children *self, int fd)
{
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD) signal_programs(self, (int)info.ssi_signo);
    if (!collect(self)) return false;
    if (!self->last_ended_ns && !self->programs[self->num_programs - 1])
        self->last_ended_ns = pw_clock_wall_ns();
    if (!self->ending_ns && self->last_ended_ns &&
        pw_clock_wall_ns() - self->last_ended_ns > FAREWELL_NS) {
        self->ending_ns = pw_clock_wall_ns();
        signal_programs(self, SIGTERM);
    }
    bool has_ended = true;
    for (uint32_t i = 0; i < self->num_programs; i++) has_ended = has_ended && !self->programs[i];
    if (has_ended && !self->has_ended) {
        self->has_ended = true;
        self->ending_ns = pw_clock_wall_ns();
        signal_all(SIGTERM);
    }
    if (self->ending_ns && pw_clock_wall_ns() - self->ending_ns > GRACE_NS) self->is_killing = true;
    if (self->is_killing) signal_all(SIGKILL);
    return true;
}

bool pw_children_are_ending(const pw_children *self)
{
    return self->last_ended_ns || self->ending_ns;
}

void pw_children_kill(pw_children *self)
{
    const int64_t until_ns = pw_clock_wall_ns() + GRACE_NS;
    while (collect(self) && pw_clock_wall_ns() < until_ns) {
        const struct timespec pause = {.tv_nsec = 1000000};
        signal_all(SIGKILL);
        nanosleep(&pause, NULL);
    }
}
