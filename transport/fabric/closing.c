#include "transport/fabric/closing.h"

#include "transport/fabric/process.h"

#define TURNS_IN_VAIN 2000 /* before a peer counts as gone */

static void release_lease(pw_fi_process *process, pw_fi_operation *operation)
{
    if (operation->has_lease) (void)pw_node_release(process->node, &operation->lease);
    operation->has_lease = false;
}

/* It is in no list; nor does it count any more for the buffer that it lands in. */
static void drop(pw_fi_process *process, pw_fi_operation *operation)
{
    release_lease(process, operation);
    if (operation->parent) {
        operation->parent->sink = NULL;
        pw_fi_release(process, operation->parent);
    }
    pw_fi_unlink(operation);
    operation->parent = NULL;
    operation->sink = NULL;
    if (!operation->is_multi) pw_fi_give(process, operation);
    else pw_fi_release(process, operation); /* messages may land in it still */
}

static void drop_of(pw_fi_process *process, pw_fi_list *list, const pw_fi_endpoint *endpoint)
{
    for (pw_fi_operation *next, *each = list->head; each; each = next) {
        next = each->next;
        if (each->endpoint != endpoint) continue;
        pw_fi_unlink(each);
        drop(process, each);
    }
}

static pw_fi_operation *owner_of(const pw_handle *handle, const pw_fi_endpoint *endpoint)
{
    pw_fi_operation *operation = handle->owner;
    return operation && operation->endpoint == endpoint ? operation : NULL;
}

/* Is anything moving that the endpoint began itself? A send waits for the peer's receive. */
static bool is_moving(const pw_fi_process *process, const pw_fi_endpoint *endpoint)
{
    for (const pw_handle *each = pw_node_under_way(process->node); each; each = each->next) {
        const pw_fi_operation *operation = owner_of(each, endpoint);
        if (operation && operation->kind != PW_FI_SEND) return true;
    }
    return false;
}

static void settle(pw_fi_process *process, const pw_fi_endpoint *endpoint)
{
    for (int in_vain = 0; in_vain < TURNS_IN_VAIN && is_moving(process, endpoint); in_vain++) {
        const int code = pw_node_turn(process->node, true);
        if (code < 0) return;
        if (code > 0) {
            in_vain = 0;
            pw_node_busy(process->node);
        } else pw_node_idle(process->node);
    }
}

/* Its end is told to nobody; until then the NI has its memory. */
static void orphan(pw_fi_process *process, pw_fi_operation *operation)
{
    pw_fi_operation *parent = operation->parent;
    if (parent) parent->sink = NULL;
    if (parent) pw_fi_release(process, parent);
    pw_fi_unlink(operation);
    operation->parent = NULL;
    operation->sink = NULL;
    operation->endpoint = NULL;
    operation->num_parts = 0;
    operation->has_remote_data = false;
}

void pw_fi_abandon(pw_fi_process *process, pw_fi_endpoint *endpoint)
{
    pw_fi_list over = {0};
    drop_of(process, &process->waiting_writes, endpoint);
    drop_of(process, &endpoint->tagged.posted, endpoint);
    drop_of(process, &endpoint->plain.posted, endpoint);
    settle(process, endpoint);
    for (const pw_handle *each = pw_node_under_way(process->node); each; each = each->next) {
        pw_fi_operation *operation = owner_of(each, endpoint);
        if (operation) orphan(process, operation);
    }
    pw_fi_timeline_drop(&process->timeline, endpoint, &over);
    drop_of(process, &over, endpoint);
    drop_of(process, &process->atomics, endpoint); /* their answers find nobody */
    drop_of(process, &process->claimed, endpoint);
    drop_of(process, &endpoint->tagged.unexpected, endpoint);
    drop_of(process, &endpoint->plain.unexpected, endpoint);
    drop_of(process, &endpoint->in_order, endpoint);
}
