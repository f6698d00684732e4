#include "r5sched/mailbox.h"
#include <stdlib.h>

int pw_mailbox_init(pw_mailbox *mailbox, uint32_t depth)
{
    *mailbox = (pw_mailbox){.depth = depth};
    mailbox->taken_ns = malloc(depth * sizeof *mailbox->taken_ns);
    if (!mailbox->taken_ns) return PW_ERR_NOMEM;
    for (uint32_t i = 0; i < depth; i++) mailbox->taken_ns[i] = INT64_MIN;
    return PW_OK;
}

void pw_mailbox_destroy(pw_mailbox *mailbox)
{
    free(mailbox->taken_ns);
    free(mailbox->waiting);
}

bool pw_mailbox_pass(pw_mailbox *mailbox, pw_time at_ns, pw_time taken_ns)
{
    bool was_full =
        mailbox->taken_ns[mailbox->next_taken] > at_ns; /* the one depth places before */
    mailbox->taken_ns[mailbox->next_taken] = taken_ns;
    mailbox->next_taken = mailbox->next_taken + 1 == mailbox->depth ? 0 : mailbox->next_taken + 1;
    return was_full;
}

int pw_mailbox_keep(pw_mailbox *mailbox, const pw_event *entry)
{
    if (mailbox->num_waiting == mailbox->capacity) {
        uint32_t capacity = mailbox->capacity ? 2 * mailbox->capacity : 64;
        pw_event *bigger = malloc(capacity * sizeof *bigger);
        if (!bigger) return PW_ERR_NOMEM;
        for (uint32_t i = 0; i < mailbox->num_waiting; i++)
            bigger[i] = mailbox->waiting[(mailbox->head + i) % mailbox->capacity];
        free(mailbox->waiting);
        mailbox->waiting = bigger;
        mailbox->capacity = capacity;
        mailbox->head = 0;
    }
    mailbox->waiting[(mailbox->head + mailbox->num_waiting) % mailbox->capacity] = *entry;
    return mailbox->num_waiting++ >= mailbox->depth;
}

void pw_mailbox_drop_head(pw_mailbox *mailbox)
{
    mailbox->head = (mailbox->head + 1) % mailbox->capacity;
    mailbox->num_waiting--;
}
