/* The built-in page-in policies: how far a fault at the destination brings its transfer's pages in
 * [PART 5.3]. A new one is a function here, a row of the table, and its PW_POLICY_* (settings.h);
 * PW_POLICY_HOST is none of them: the host is asked. */
#include "driver/driver_parts.h"

/* PIO: the page alone. */
static uint64_t end_of_page(const pw_fault *fault, uint64_t page)
{
    (void)fault;
    return page + 1;
}

/* PI4: the rest of the block. */
static uint64_t end_of_block(const pw_fault *fault, uint64_t page)
{
    (void)page;
    return fault->block_end_page;
}

/* PIA: the rest of the transfer. */
static uint64_t end_of_transfer(const pw_fault *fault, uint64_t page)
{
    (void)page;
    return fault->transfer_end_page;
}

static const pw_page_in_policy policies[] = {
    [PW_POLICY_PAGE] = {.end_page = end_of_page},
    [PW_POLICY_BLOCK] = {.end_page = end_of_block},
    [PW_POLICY_ALL] = {.end_page = end_of_transfer},
};

const pw_page_in_policy *pw_page_in_policy_of(int64_t policy)
{
    return policy < PW_POLICY_HOST ? &policies[policy] : NULL;
}
