/* Remote fork of an executable file [D3.6 2.2.8, 2.3.5]: this very program, which then is the child
 * and does what the first word of its argument's page says. */
#include "include/atomic.h"
#include "tests/c/node/two_nodes.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

enum { WORKS = 1, FAILS, CRASHES, FOLLOWS_A_WRONG_POINTER, READS_BY_TWO_THREADS, HANGS };

/* One of two threads that read pages of 4 KB at once: each gets its own. */
static void *read_own_page(void *number)
{
    uint8_t copy[UNIMEM_PAGE_BYTES];
    uint64_t *page = allocSharedPage(1, 0);
    WRITE64(page, (uintptr_t)number);
    for (int i = 0; i < 2000; i++) {
        assert(READ4K(page, copy) == UNIMEM_PAGE_BYTES);
        assert(copy[0] == (uintptr_t)number);
    }
    return NULL;
}

static int be_the_child(void)
{
    uint8_t copy[UNIMEM_PAGE_BYTES];
    uint64_t *page = (uint64_t *)(uintptr_t)readThreadArgument();
    unimem *memory = atomic_own()->memory;
    switch (READ64(page)) {
    case WORKS:
        assert(getNumberBoards() == 2 && getBoardPid() == 1 && unimem_id(memory) >> 8 == 1);
        assert(READ4K(page, copy) == UNIMEM_PAGE_BYTES && copy[0] == WORKS);
        assert(CAS64(page + 1, 7, 8) == 1 && FAD64(page + 1, 5) == 8);
        uint64_t *more = allocSharedPage(1, 0);
        WRITE64(more, 99);
        WRITE64(page + 2, (uintptr_t)more);
        assert(unimem_send(memory, 0, 1) == PAGEWIRE_ERR_INVALID);
        assert(strstr(unimem_reason(memory), "operations of shared memory alone"));
        assert(unimem_open_interface(memory) == PAGEWIRE_ERR_INVALID);
        assert(fcntl(4, F_GETFD) < 0 && errno == EBADF); /* it has inherited no descriptor */
        unimem_destroy(memory);
        printf("board %d\n", 1);
        return 0;
    case READS_BY_TWO_THREADS: {
        pthread_t other;
        assert(pthread_create(&other, NULL, read_own_page, (void *)1) == 0);
        read_own_page((void *)2);
        return pthread_join(other, NULL);
    }
    case FAILS: return 3;
    case CRASHES:
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would make SIGABRT of it */
        return raise(SIGSEGV);
    case FOLLOWS_A_WRONG_POINTER: READ64((void *)(uintptr_t)0x5000000); return 0;
    default: WRITE64(page + 1, (uint64_t)getpid()); pause();
    }
    return 0;
}

static uint64_t started(unimem *const memory[2], uint64_t what, uint64_t *page)
{
    uint64_t child;
    assert(unimem_alloc(memory[0], 0, 1, 0, page) == PAGEWIRE_OK);
    assert(unimem_write64(memory[0], *page, what) == PAGEWIRE_OK);
    assert(unimem_write64(memory[0], *page + 8, 7) == PAGEWIRE_OK);
    assert(unimem_fork(memory[0], 1, SELF, *page, &child) == PAGEWIRE_OK && child >> 8 == 1);
    return child;
}

static void is_told(const char *text, const char *said)
{
    if (strstr(said, text)) return;
    fprintf(stderr, "'%s' is not in: %s\n", text, said);
    abort();
}

static void says_in_its_log(uint64_t child, const char *text)
{
    char name[64], said[4096];
    snprintf(name, sizeof name, "exec-%llu-stdout.log", (unsigned long long)child);
    FILE *log = fopen(name, "r");
    assert(log);
    said[fread(said, 1, sizeof said - 1, log)] = 0;
    fclose(log);
    is_told(text, said);
}

static void it_works_on_shared_memory(unimem *const memory[2], const pair *p)
{
    uint64_t page, value, more, child = started(memory, WORKS, &page);
    int64_t forked_ns = pagewire_clock_ns(p->nodes[0]);
    int code = unimem_wait_forks(memory[1]);
    if (code < 0) fprintf(stderr, "%s\n", unimem_reason(memory[1]));
    assert(code == PAGEWIRE_OK);
    assert(pagewire_clock_ns(p->nodes[1]) > forked_ns); /* its operations took virtual time */
    assert(unimem_read64(memory[0], page + 8, &value) == PAGEWIRE_OK && value == 13);
    assert(unimem_read64(memory[0], page + 16, &more) == PAGEWIRE_OK);
    assert(unimem_read64(memory[0], more, &value) == PAGEWIRE_OK && value == 99);
    says_in_its_log(child, "board 1\n");
    assert(unimem_wait_forks(memory[1]) == PAGEWIRE_OK);
}

static void its_threads_read_pages_of_their_own(unimem *const memory[2])
{
    uint64_t page;
    started(memory, READS_BY_TWO_THREADS, &page);
    assert(unimem_wait_forks(memory[1]) == PAGEWIRE_OK);
}

static void how_it_dies_is_told(unimem *const memory[2])
{
    static const struct {
        uint64_t what;
        const char *told, *logged;
    } deaths[] = {{FAILS, "ended with exit code 3; see exec-", ""},
                  {CRASHES, "died of signal 11 (Segmentation fault); see exec-", ""},
                  {FOLLOWS_A_WRONG_POINTER, "ended with exit code 1", "there is no such page"}};
    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
        uint64_t page, child = started(memory, deaths[i].what, &page);
        assert(unimem_wait_forks(memory[1]) == PAGEWIRE_ERR_UNRECOVERABLE);
        is_told(deaths[i].told, unimem_reason(memory[1]));
        says_in_its_log(child, deaths[i].logged);
    }
}

static void what_is_no_program_is_refused(unimem *const memory[2])
{
    uint64_t child;
    assert(unimem_fork(memory[0], 1, "./missing", 0, NULL) == PAGEWIRE_ERR_ADDRESS);
    is_told("there is no such file at the node", unimem_reason(memory[0]));
    FILE *text = fopen("text", "w");
    assert(text && fputs("hello\n", text) >= 0 && fclose(text) == 0);
    assert(chmod("text", 0644) == 0);
    assert(unimem_fork(memory[0], 1, "text", 0, NULL) == PAGEWIRE_ERR_PROTECTION);
    is_told("chmod +x", unimem_reason(memory[0]));
    assert(unimem_fork(memory[0], 1, ".", 0, NULL) == PAGEWIRE_ERR_PROTECTION);
    assert(chmod("text", 0755) == 0); /* of no format: known when it is executed */
    assert(unimem_fork(memory[0], 1, "text", 0, &child) == PAGEWIRE_OK);
    assert(unimem_wait_forks(memory[1]) == PAGEWIRE_ERR_UNRECOVERABLE);
    is_told("ended with exit code 126", unimem_reason(memory[1]));
    says_in_its_log(child, "could not be executed");
    unimem *none;
    assert(unimem_forked(&none, &child) == PAGEWIRE_ERR_INVALID);
}

/* Its process's number. */
static pid_t hangs(unimem *const memory[2])
{
    uint64_t page, number = 7;
    started(memory, HANGS, &page);
    while (number == 7) assert(unimem_read64(memory[0], page + 8, &number) == PAGEWIRE_OK);
    return (pid_t)number;
}

static atomic_bool is_over;

/* A node's host: it serves whoever asks. */
static void *drive(void *node)
{
    while (!is_over) assert(pagewire_progress(node, PAGEWIRE_CPU_WAITS) >= 0);
    return NULL;
}

int main(void)
{
    host_network network = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    host_end ends[2] = {{.network = &network, .node = 0}, {.network = &network, .node = 1}};
    pthread_t drivers[2];
    char folder[] = "/tmp/pagewire-forks-XXXXXX", command[64];
    if (getenv("PAGEWIRE_FORK")) return be_the_child();
    assert(mkdtemp(folder) && chdir(folder) == 0);
    pair p = {.nodes = {hosted(&ends[0], none), hosted(&ends[1], none)}};
    unimem *memory[2];
    for (int i = 0; i < 2; i++) assert(unimem_create(p.nodes[i], NULL, &memory[i]) == PAGEWIRE_OK);
    for (int i = 0; i < 2; i++) assert(pthread_create(&drivers[i], NULL, drive, p.nodes[i]) == 0);
    it_works_on_shared_memory(memory, &p);
    its_threads_read_pages_of_their_own(memory);
    how_it_dies_is_told(memory);
    what_is_no_program_is_refused(memory);
    pid_t child = hangs(memory);
    is_over = true;
    for (int i = 0; i < 2; i++) assert(pthread_join(drivers[i], NULL) == 0);
    for (int i = 1; i >= 0; i--) unimem_destroy(memory[i]);
    assert(kill(child, 0) < 0 && errno == ESRCH); /* killed with its node */
    for (int i = 0; i < 2; i++) pagewire_node_destroy(p.nodes[i]);
    end_network(&network);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") || system(command);
}
