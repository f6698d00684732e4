/* fabric_api CASE: forks the case's processes; 0 when all of them ended well. Without a case: the
 * names of all. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

#define HANG_S 240 /* sanitizers on a busy machine included */

static api_case *cases;
static int pipes[API_PROCESSES_MAX][API_PROCESSES_MAX][2]; /* from, to */

void api_register(api_case *registered)
{
    registered->next = cases;
    cases = registered;
}

static const api_case *find(const char *name)
{
    const api_case *each = cases;
    while (each && strcmp(each->name, name)) each = each->next;
    return each;
}

static void open_pipes(uint32_t num_processes)
{
    for (uint32_t from = 0; from < num_processes; from++)
        for (uint32_t to = 0; to < num_processes; to++)
            if (pipe2(pipes[from][to], O_CLOEXEC)) exit(2);
}

static void take_pipes(api *self)
{
    for (uint32_t from = 0; from < self->num_processes; from++)
        for (uint32_t to = 0; to < self->num_processes; to++) {
            if (to == self->rank) self->from[from] = pipes[from][to][0];
            else close(pipes[from][to][0]);
            if (from == self->rank) self->to[to] = pipes[from][to][1];
            else close(pipes[from][to][1]);
        }
    for (uint32_t from = 0; from < self->num_processes; from++)
        fcntl(self->from[from], F_SETFL, O_NONBLOCK);
}

static int run_process(const api_case *chosen, uint32_t rank)
{
    api self = {.rank = rank, .num_processes = chosen->num_processes};
    char text[16];
    snprintf(text, sizeof text, "%u", rank);
    setenv("PMI_RANK", text, 1);
    alarm(HANG_S);
    take_pipes(&self);
    if (!chosen->is_bare) api_begin(&self);
    chosen->run(&self);
    if (!chosen->is_bare) api_end(&self);
    return 0;
}

int main(int argc, char **argv)
{
    const api_case *chosen = argc > 1 ? find(argv[1]) : NULL;
    pid_t pids[API_PROCESSES_MAX];
    int failed = 0;
    if (argc < 2)
        for (const api_case *each = cases; each; each = each->next) puts(each->name);
    if (!chosen) return argc > 1 ? 2 : 0;
    open_pipes(chosen->num_processes);
    for (uint32_t rank = 0; rank < chosen->num_processes; rank++)
        if ((pids[rank] = fork()) == 0) exit(run_process(chosen, rank));
    for (uint32_t from = 0; from < chosen->num_processes; from++)
        for (uint32_t to = 0; to < chosen->num_processes; to++) {
            close(pipes[from][to][0]);
            close(pipes[from][to][1]);
        }
    for (uint32_t rank = 0; rank < chosen->num_processes; rank++) {
        int status;
        if (waitpid(pids[rank], &status, 0) != pids[rank] || status) {
            if (WIFSIGNALED(status))
                fprintf(stderr, "process %u: ended by signal %d\n", rank, WTERMSIG(status));
            failed = 1;
        }
    }
    return failed;
}
