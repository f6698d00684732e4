/* A page that tells a process from its forked children, for what a child must not use: one load
 * instead of a system call. Read-only after creation: any thread may read. */
#ifndef PW_NODE_OWNER_PAGE_H
#define PW_NODE_OWNER_PAGE_H
#include "native/types.h"

/* Reads 1 in this process and 0 in its forked children. NULL: the kernel refuses, see errno. */
uint8_t *pw_owner_page_create(void);
void pw_owner_page_destroy(uint8_t *page);
#endif
