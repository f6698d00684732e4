#include "transport/fabric/timeline.h"
#include <stdlib.h>

#include "transport/fabric/cq.h"
#include "transport/fabric/process.h"

#define FIRST_CAPACITY 256

static bool is_before(const pw_fi_operation *a, const pw_fi_operation *b)
{
    if (a->complete_ns != b->complete_ns) return a->complete_ns < b->complete_ns;
    return a->sequence < b->sequence;
}

static bool grow(pw_fi_timeline *timeline)
{
    uint64_t capacity = timeline->capacity ? 2 * timeline->capacity : FIRST_CAPACITY;
    pw_fi_operation **grown = realloc(timeline->operations, capacity * sizeof(pw_fi_operation *));
    if (!grown) return false;
    timeline->operations = grown;
    timeline->capacity = capacity;
    return true;
}

static void sift_up(pw_fi_timeline *timeline, uint64_t idx)
{
    pw_fi_operation **heap = timeline->operations, *moving = heap[idx];
    for (; idx > 0 && is_before(moving, heap[(idx - 1) / 2]); idx = (idx - 1) / 2)
        heap[idx] = heap[(idx - 1) / 2];
    heap[idx] = moving;
}

static void sift_down(pw_fi_timeline *timeline, uint64_t idx)
{
    pw_fi_operation **heap = timeline->operations, *moving = heap[idx];
    for (uint64_t child; (child = 2 * idx + 1) < timeline->num_operations; idx = child) {
        if (child + 1 < timeline->num_operations && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], moving)) break;
        heap[idx] = heap[child];
    }
    heap[idx] = moving;
}

int pw_fi_timeline_add(pw_fi_timeline *timeline, pw_fi_operation *operation)
{
    if (timeline->num_operations == timeline->capacity && !grow(timeline)) return PW_ERR_NOMEM;
    operation->sequence = timeline->next_sequence++;
    timeline->operations[timeline->num_operations] = operation;
    sift_up(timeline, timeline->num_operations++);
    return PW_OK;
}

pw_fi_operation *pw_fi_timeline_first(const pw_fi_timeline *timeline)
{
    return timeline->num_operations ? timeline->operations[0] : NULL;
}

pw_fi_operation *pw_fi_timeline_take(pw_fi_timeline *timeline)
{
    pw_fi_operation *first = timeline->operations[0];
    timeline->operations[0] = timeline->operations[--timeline->num_operations];
    if (timeline->num_operations) sift_down(timeline, 0);
    return first;
}

void pw_fi_timeline_finish(pw_fi_timeline *timeline)
{
    free(timeline->operations);
    *timeline = (pw_fi_timeline){0};
}

void pw_fi_timeline_drop(pw_fi_timeline *timeline, const pw_fi_endpoint *endpoint, pw_fi_list *out)
{
    uint64_t num_kept = 0;
    for (uint64_t i = 0; i < timeline->num_operations; i++) {
        pw_fi_operation *each = timeline->operations[i];
        if (each->endpoint == endpoint) pw_fi_append(out, each);
        else timeline->operations[num_kept++] = each;
    }
    timeline->num_operations = num_kept;
    for (uint64_t i = num_kept / 2; i-- > 0;) sift_down(timeline, i);
}

int pw_fi_end(pw_fi_process *process, pw_fi_operation *operation)
{
    if (operation->sink) return pw_fi_timeline_add(&process->timeline, operation);
    pw_fi_give(process, operation);
    return PW_OK;
}

void pw_fi_release(pw_fi_process *process, pw_fi_operation *buffer)
{
    if (--buffer->num_users) return;
    const pw_fi_sink *sink = buffer->sink;
    if (sink && sink->counter && buffer->error) sink->counter->errors++;
    if (sink && sink->cq)
        pw_fi_cq_add(sink->cq,
                     &(struct fi_cq_err_entry){.op_context = buffer->context,
                                               .flags = FI_MULTI_RECV,
                                               .err = buffer->error,
                                               .prov_errno = buffer->error},
                     FI_ADDR_NOTAVAIL);
    pw_fi_give(process, buffer);
}

static void tell(pw_fi_process *process, pw_fi_operation *operation)
{
    const pw_fi_sink *sink = operation->sink;
    if (sink->counter && !operation->is_uncounted) {
        if (operation->error) sink->counter->errors++;
        else sink->counter->value++;
    }
    if (sink->cq && (operation->error || (operation->wants_entry && !operation->is_silent)))
        pw_fi_cq_add_operation(sink->cq, operation);
    if (operation->parent) pw_fi_release(process, operation->parent);
    pw_fi_give(process, operation);
}

bool pw_fi_deliver(pw_fi_process *process, bool is_waiting)
{
    pw_fi_timeline *timeline = &process->timeline;
    pw_fi_operation *first = pw_fi_timeline_first(timeline);
    if (!first) return false;
    if (first->complete_ns > process->clock->now_ns) {
        if (!is_waiting) return false;
        process->clock->now_ns = first->complete_ns;
    }
    if (first->error != FI_ENOMSG) process->clock->now_ns += process->clock->poll_ns;
    while ((first = pw_fi_timeline_first(timeline)) && first->complete_ns <= process->clock->now_ns)
        tell(process, pw_fi_timeline_take(timeline));
    return true;
}
