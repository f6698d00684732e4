/* qemu's user mode says yes to MADV_POPULATE_*, and does nothing: here a touch does it. */
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define POPULATE_READ 22
#define POPULATE_WRITE 23

int madvise(void *address, size_t num_bytes, int advice)
{
    _Atomic char *bytes = address;
    if (advice != POPULATE_READ && advice != POPULATE_WRITE)
        return (int)syscall(SYS_madvise, address, num_bytes, advice);
    for (size_t i = 0; i < num_bytes; i += PAGE_BYTES) {
        if (advice == POPULATE_WRITE) bytes[i] |= 0;
        else (void)bytes[i];
    }
    return 0;
}
