/* The deliverable's names for shared memory: a program of D3.6 2.3, on two nodes of a process. */
#include "include/atomic.h"
#include "tests/c/node/two_nodes.h"
#include <sys/wait.h>
#include <unistd.h>

static uint64_t spawn(void *context, const unimem_fork_request *wanted)
{
    *(uint64_t *)context = wanted->argument;
    return strcmp(wanted->name, "worker") == 0 ? 1 : 0;
}

static void every_name_does_what_the_deliverable_says(unimem *memory[2], const uint64_t *forked)
{
    uint8_t page[UNIMEM_PAGE_BYTES];
    atomic_use(memory[0], ATOMIC_NO_PARENT);
    assert(getNumberBoards() == 2 && getBoardPid() == 0);
    assert(readThreadArgument() == UINT64_C(0xCAFEFEBEBEADBEFF));
    char *there = allocSharedPage(2, 1);
    assert((uintptr_t)there >> 48 == 1);
    WRITE64(there, UINT64_C(0x8877665544332211));
    assert(READ8(there + 7) == 0x88 && READ32(there) == 0x44332211);
    WRITE8(there, 1);
    WRITE32(there + 8, 7);
    assert(CAS64(there + 8, 7, 8) == 1 && CAS64(there + 8, 7, 9) == 0);
    assert(FAD64(there + 8, 5) == 8 && SWAP64(there + 8, 1) == 13 && READ64(there + 8) == 1);
    WRITE128(there + 16, 2, 3);
    assert(READ4K(there, page) == UNIMEM_PAGE_BYTES && page[0] == 1 && page[16] == 2);
    assert(!allocSharedPage(65535, 1));
    assert(remoteFork("worker", 55, 1) == 0 && *forked == 55);
    assert(remoteFork("nobody", 56, 1) == -1);
    freeSharedPage(there);
    atomic_use(memory[1], 55);
    assert(getBoardPid() == 1 && readThreadArgument() == 55);
}

static void an_invalid_pointer_ends_the_program(unimem *memory[2])
{
    int said[2], status;
    char text[200];
    assert(pipe(said) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(said[1], STDERR_FILENO);
        atomic_use(memory[0], ATOMIC_NO_PARENT);
        READ64((void *)(uintptr_t)0x5000);
        _exit(0);
    }
    close(said[1]);
    ssize_t num_bytes = read(said[0], text, sizeof text - 1);
    assert(waitpid(child, &status, 0) == child && WIFEXITED(status));
    assert(WEXITSTATUS(status) == EXIT_FAILURE && num_bytes > 0);
    text[num_bytes] = 0;
    assert(strstr(text, "READ64(0x5000): ") && strstr(text, "no such page"));
    close(said[0]);
}

int main(void)
{
    pair p = joined(none);
    unimem *memory[2];
    uint64_t forked = 0;
    const unimem_options options = {
        .struct_size = sizeof options, .spawn = spawn, .context = &forked};
    for (int i = 0; i < 2; i++)
        assert(unimem_create(p.nodes[i], i ? &options : NULL, &memory[i]) == PAGEWIRE_OK);
    every_name_does_what_the_deliverable_says(memory, &forked);
    an_invalid_pointer_ends_the_program(memory);
    for (int i = 0; i < 2; i++) unimem_destroy(memory[i]);
    end(&p);
    return 0;
}
