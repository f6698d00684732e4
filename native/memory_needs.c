/* What the host backend needs of the kernel, tried on a page of its own. */
#include <sys/mman.h>
#include <unistd.h>

#include "native/memory.h"
#include "native/memory_backend.h"

#define REMEDY "allow it in the container's seccomp profile, or take memory_backend.backend = model"

static const char *lacks(void *page)
{
    unsigned char state;
    if (mincore(page, PW_PAGE_BYTES, &state) != 0)
        return "the kernel refuses mincore, which tells what pages are there; " REMEDY;
    if (madvise(page, PW_PAGE_BYTES, MADV_POPULATE_READ) != 0)
        return "the kernel refuses madvise(MADV_POPULATE_READ), which brings pages in; take Linux "
               "5.14 or newer, " REMEDY;
    if (madvise(page, PW_PAGE_BYTES, MADV_POPULATE_WRITE) != 0)
        return "the kernel refuses madvise(MADV_POPULATE_WRITE), which brings pages in; take Linux "
               "5.14 or newer, " REMEDY;
    return NULL;
}

const char *pw_memory_host_lacks(void)
{
    if (sysconf(_SC_PAGESIZE) != PW_PAGE_BYTES)
        return "this kernel's pages are not of 4 KB; take a kernel whose pages are, or "
               "memory_backend.backend = model";
    void *page =
        mmap(NULL, PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return "the kernel gives no memory (mmap); raise ulimit -v";
    const char *found = lacks(page);
    munmap(page, PW_PAGE_BYTES);
    return found;
}
