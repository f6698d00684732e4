#include "transport/node/owner_page.h"

#include <errno.h>
#include <sys/mman.h>

uint8_t *pw_owner_page_create(void)
{
    uint8_t *page =
        mmap(NULL, PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (madvise(page, PW_PAGE_BYTES, MADV_WIPEONFORK)) {
        const int saved = errno;
        munmap(page, PW_PAGE_BYTES);
        errno = saved;
        return NULL;
    }
    *page = 1;
    return page;
}

void pw_owner_page_destroy(uint8_t *page)
{
    if (page) munmap(page, PW_PAGE_BYTES);
}
