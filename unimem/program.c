#include "unimem/program.h"
#include "native/status.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINK_FD 3 /* of the program */
#define LINK_NAME "PAGEWIRE_FORK"
#define TEXT_BYTES 256

extern char **environ;

struct pw_program {
    char file[PW_PAGE_BYTES];
    uint64_t id;
    pid_t pid;
    int link;
};

/* An answer and, behind a read of 4 KB, its page: one message of the link. */
typedef struct {
    pw_program_answer answer;
    uint8_t page[PW_PAGE_BYTES];
} answer_message;

uint64_t pw_program_check(const char *file)
{
    struct stat found;
    if (stat(file, &found)) return UNIMEM_FORK_NO_FILE;
    return S_ISREG(found.st_mode) && access(file, X_OK) == 0 ? 0 : UNIMEM_FORK_NOT_EXECUTABLE;
}

/* In the child of vfork: system calls alone, since memory is the parent's. */
static void become(const char *file, int link, int log, char *const *environment)
{
    char *const arguments[] = {(char *)(uintptr_t)file, NULL};
    sigset_t none;
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Beyond those that they are to become, which one of them may have now. */
    link = fcntl(link, F_DUPFD, LINK_FD + 1);
    log = fcntl(log, F_DUPFD, LINK_FD + 1);
    if (null < 0 || link < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
        dup2(log, 2) < 0 || dup2(link, LINK_FD) < 0)
        _exit(127);
    syscall(SYS_close_range, LINK_FD + 1, ~0u, 0);
    execve(file, arguments, environment);
    static const char text[] = "the file could not be executed\n";
    _exit(write(2, text, sizeof text - 1) < 0 ? 127 : 126);
}

/* A fork would make registered pages copies on write. Apart: the child shares the stack. */
__attribute__((noinline)) static pid_t spawn(const char *file, int link, int log,
                                             char *const *environment)
{
    pid_t pid = vfork();
    if (pid == 0) become(file, link, log, environment);
    return pid;
}

/* The process's environment and the link's number; the caller's to free. */
static char **environment_of_program(void)
{
    static char link[] = LINK_NAME "=3";
    _Static_assert(LINK_FD == 3, "as the text says");
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **made = malloc((count + 2) * sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        if (strncmp(environ[i], LINK_NAME "=", sizeof LINK_NAME)) made[kept++] = environ[i];
    if (!made) return NULL;
    made[kept++] = link;
    made[kept] = NULL;
    return made;
}

/* The process at the other end of ends; its number, or -1. */
static pid_t start_process(const pw_program *program, const int ends[2], const char *log_name)
{
    int log = open(log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    char **environment = environment_of_program();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of ours runs in the child */
    pid_t pid = log < 0 || !environment ? -1 : spawn(program->file, ends[1], log, environment);
    int saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (log >= 0) close(log);
    free(environment);
    errno = saved;
    return pid;
}

int pw_program_start(const char *file, const pw_program_facts *facts, pw_program **out)
{
    int ends[2];
    char log_name[64];
    pw_program *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        free(made);
        return PW_ERR_HOST;
    }
    snprintf(made->file, sizeof made->file, "%s", file);
    snprintf(log_name, sizeof log_name, "exec-%llu-stdout.log", (unsigned long long)facts->id);
    made->id = facts->id;
    made->link = ends[0];
    made->pid = start_process(made, ends, log_name);
    int saved = errno;
    close(ends[1]);
    if (made->pid < 0) {
        close(ends[0]);
        free(made);
        errno = saved;
        return PW_ERR_HOST;
    }
    /* Not read when the program wants no shared memory. */
    if (send(made->link, facts, sizeof *facts, MSG_NOSIGNAL) < 0) errno = 0;
    *out = made;
    return PW_OK;
}

/* A message of the link; false: the other end has gone. */
static bool receive(int link, void *out, size_t num_bytes, size_t *got)
{
    ssize_t code;
    do code = recv(link, out, num_bytes, 0);
    while (code < 0 && errno == EINTR);
    *got = code > 0 ? (size_t)code : 0;
    return code > 0;
}

int pw_program_next(pw_program *program, pw_program_request *out)
{
    size_t got;
    return receive(program->link, out, sizeof *out, &got) && got == sizeof *out;
}

void pw_program_answer_it(pw_program *program, const pw_program_answer *answer, const uint8_t *page)
{
    answer_message message = {.answer = *answer};
    if (page) memcpy(message.page, page, sizeof message.page);
    size_t num_bytes = page ? sizeof message : offsetof(answer_message, page);
    /* When it has died, the next request does not come. */
    if (send(program->link, &message, num_bytes, MSG_NOSIGNAL) < 0) errno = 0;
}

void pw_program_kill(const pw_program *program)
{
    kill(program->pid, SIGKILL); /* it is not reaped before pw_program_end */
}

bool pw_program_end(pw_program *program, char *text)
{
    int status = 0;
    pid_t ended;
    shutdown(program->link, SHUT_RDWR);
    do ended = waitpid(program->pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    bool is_well = ended == program->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    unsigned long long id = program->id;
    if (ended != program->pid)
        snprintf(text, TEXT_BYTES, "child %llu: its end is not known: %s", id, strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(text, TEXT_BYTES,
                 "%.120s, child %llu, died of signal %d (%s); see "
                 "exec-%llu-stdout.log",
                 program->file, id, WTERMSIG(status), strsignal(WTERMSIG(status)), id);
    else
        snprintf(text, TEXT_BYTES,
                 "%.120s, child %llu, ended with exit code %d; see "
                 "exec-%llu-stdout.log",
                 program->file, id, WEXITSTATUS(status), id);
    close(program->link);
    free(program);
    return is_well;
}

/* ---- the program's side */

struct pw_program_link {
    pthread_mutex_t mutex;
    int fd;
};

int pw_program_link_create(pw_program_link **out, pw_program_facts *facts)
{
    size_t got;
    const char *number = getenv(LINK_NAME);
    if (!number) return PW_ERR_INVALID;
    int fd = atoi(number);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return PW_ERR_INVALID;
    unsetenv(LINK_NAME); /* what it starts in turn is no such program */
    if (!receive(fd, facts, sizeof *facts, &got) || got != sizeof *facts) return PW_ERR_HOST;
    pw_program_link *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->fd = fd;
    pthread_mutex_init(&made->mutex, NULL);
    *out = made;
    return PW_OK;
}

void pw_program_link_destroy(pw_program_link *link)
{
    close(link->fd);
    pthread_mutex_destroy(&link->mutex);
    free(link);
}

void pw_program_link_lock(pw_program_link *link) { pthread_mutex_lock(&link->mutex); }

void pw_program_link_unlock(pw_program_link *link) { pthread_mutex_unlock(&link->mutex); }

int pw_program_link_ask(pw_program_link *link, const pw_program_request *request,
                        pw_program_answer *out, uint8_t *page)
{
    answer_message message;
    size_t got = 0, least = offsetof(answer_message, page);
    bool is_answered = send(link->fd, request, sizeof *request, MSG_NOSIGNAL) >= 0 &&
                       receive(link->fd, &message, sizeof message, &got) && got >= least;
    if (!is_answered) return PW_ERR_UNRECOVERABLE;
    *out = message.answer;
    if (page && got == sizeof message) memcpy(page, message.page, sizeof message.page);
    return message.answer.code;
}
