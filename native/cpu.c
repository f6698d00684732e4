#include "native/cpu.h"
#include "native/array.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 4u
#define KEPT_INTERRUPTS 64u /* of a span that is closed: room for the next one */

void pw_cpu_init(pw_cpu *cpu, pw_time interrupt_ns)
{
    *cpu =
        (pw_cpu){.interrupt_ns = interrupt_ns, .next_id = 1, .first_id = 1, .changed_ns = PW_NEVER};
}

void pw_cpu_destroy(pw_cpu *cpu)
{
    for (uint32_t i = 0; i < cpu->num_slots; i++) free(cpu->spans[i].interrupts);
    free(cpu->spans);
    free(cpu->stretches);
    free(cpu->busy);
    pw_cpu_init(cpu, cpu->interrupt_ns);
}

static pw_cpu_span *span_of(const pw_cpu *cpu, uint32_t id)
{
    return &cpu->spans[id & (cpu->num_slots - 1)];
}

static pw_time busy_ns(const pw_cpu *cpu, uint32_t position)
{
    return cpu->busy[(cpu->first_busy + position) % PW_CPU_INTERRUPTS_KEPT];
}

static void set_busy(pw_cpu *cpu, uint32_t position, pw_time at_ns)
{
    cpu->busy[(cpu->first_busy + position) % PW_CPU_INTERRUPTS_KEPT] = at_ns;
}

/* How many of the interrupts begin before work_ns of the span's work are done. Each moves the rest
 * on, and none begins before the one before it is over, so that the condition holds up to a place
 * and not behind. */
static uint32_t num_before(const pw_cpu *cpu, const pw_cpu_span *span, pw_time work_ns)
{
    uint32_t low = 0, high = span->num_interrupts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (span->interrupts[middle] < span->start_ns + work_ns + middle * cpu->interrupt_ns)
            low = middle + 1;
        else high = middle;
    }
    return low;
}

static pw_time time_in(const pw_cpu *cpu, const pw_cpu_span *span, pw_time work_ns)
{
    return span->start_ns + work_ns + num_before(cpu, span, work_ns) * cpu->interrupt_ns;
}

static void note_changed(pw_cpu *cpu, pw_time since_ns)
{
    if (since_ns < cpu->changed_ns) cpu->changed_ns = since_ns;
}

pw_time pw_cpu_take_changed(pw_cpu *cpu)
{
    const pw_time since_ns = cpu->changed_ns;
    cpu->changed_ns = PW_NEVER;
    return since_ns;
}

static int preempt(pw_cpu_span *span, pw_time at_ns)
{
    if (PW_ARRAY_MAKE_ROOM(span->interrupts, span->num_interrupts, span->capacity, 4) < 0)
        return PW_ERR_NOMEM;
    uint32_t place = span->num_interrupts++;
    for (; place && span->interrupts[place - 1] > at_ns; place--)
        span->interrupts[place] = span->interrupts[place - 1];
    span->interrupts[place] = at_ns;
    return PW_OK;
}

/* The oldest interrupt is forgotten: a thread's work that it preempted, and no span with it, is
 * done earlier if asked for again. */
static void forget_oldest(pw_cpu *cpu)
{
    const pw_time at_ns = busy_ns(cpu, 0);
    const uint32_t span = pw_cpu_find(cpu, at_ns);
    if (!span || at_ns < span_of(cpu, span)->start_ns) note_changed(cpu, at_ns);
    cpu->first_busy = (cpu->first_busy + 1) % PW_CPU_INTERRUPTS_KEPT;
    cpu->num_busy--;
}

/* Serve the interrupt in the earliest gap between those that are known. */
static pw_time serve(pw_cpu *cpu, pw_time at_ns)
{
    pw_time cost_ns = cpu->interrupt_ns;
    uint32_t place = cpu->num_busy;
    while (place && busy_ns(cpu, place - 1) + cost_ns > at_ns) place--;
    for (; place < cpu->num_busy && busy_ns(cpu, place) < at_ns + cost_ns; place++)
        at_ns = busy_ns(cpu, place) + cost_ns;
    if (cpu->num_busy == PW_CPU_INTERRUPTS_KEPT) {
        if (!place) return at_ns; /* itself the oldest */
        forget_oldest(cpu);
        place--;
    }
    for (uint32_t i = cpu->num_busy++; i > place; i--) set_busy(cpu, i, busy_ns(cpu, i - 1));
    set_busy(cpu, place, at_ns);
    return at_ns;
}

pw_time pw_cpu_interrupt(pw_cpu *cpu, pw_time at_ns, bool *preempts)
{
    if (!cpu->busy) cpu->busy = malloc(PW_CPU_INTERRUPTS_KEPT * sizeof *cpu->busy);
    if (!cpu->busy) return PW_ERR_NOMEM;
    pw_time start_ns = serve(cpu, at_ns);
    *preempts = false;
    note_changed(cpu, start_ns);
    for (uint32_t id = cpu->first_id; id < cpu->next_id; id++) {
        pw_cpu_span *span = span_of(cpu, id);
        if (span->id != id || start_ns < span->start_ns) continue;
        *preempts |= start_ns < time_in(cpu, span, span->work_ns);
        cpu->stretches_are_stale = true;
        if (preempt(span, start_ns) < 0) return PW_ERR_NOMEM; /* the span may still reach it */
    }
    return start_ns;
}

static int more_slots(pw_cpu *cpu)
{
    uint32_t num_slots = cpu->num_slots ? 2 * cpu->num_slots : FIRST_SLOTS;
    pw_cpu_span *spans = calloc(num_slots, sizeof *spans);
    pw_cpu_stretch *stretches = malloc(num_slots * sizeof *stretches);
    if (!spans || !stretches) {
        free(spans);
        free(stretches);
        return PW_ERR_NOMEM;
    }
    uint32_t num_open = cpu->next_id - cpu->first_id;
    for (uint32_t i = 0; i < cpu->num_slots; i++) {
        pw_cpu_span *span = &cpu->spans[i];
        if (num_open && span->id) spans[span->id & (num_slots - 1)] = *span;
        else free(span->interrupts);
    }
    free(cpu->spans);
    free(cpu->stretches);
    cpu->spans = spans;
    cpu->stretches = stretches;
    cpu->stretches_are_stale = true;
    cpu->num_slots = num_slots;
    return PW_OK;
}

uint32_t pw_cpu_open(pw_cpu *cpu, pw_time since_ns, pw_time start_ns)
{
    if (cpu->next_id - cpu->first_id == cpu->num_slots && more_slots(cpu) < 0) return 0;
    uint32_t id = cpu->next_id++;
    pw_cpu_span *span = span_of(cpu, id);
    span->id = id;
    span->since_ns = since_ns;
    span->start_ns = start_ns;
    span->work_ns = 0;
    span->num_interrupts = 0;
    for (uint32_t i = 0; i < cpu->num_busy; i++)
        if (busy_ns(cpu, i) >= start_ns && preempt(span, busy_ns(cpu, i)) < 0) return 0;
    return id;
}

uint32_t pw_cpu_num_preemptions(const pw_cpu *cpu, uint32_t span)
{
    return num_before(cpu, span_of(cpu, span), span_of(cpu, span)->work_ns);
}

uint32_t pw_cpu_find(const pw_cpu *cpu, pw_time at_ns)
{
    for (uint32_t id = cpu->next_id; id-- > cpu->first_id;) {
        const pw_cpu_span *span = span_of(cpu, id);
        if (span->id != id || at_ns < span->since_ns) continue;
        if (at_ns < time_in(cpu, span, span->work_ns)) return id;
    }
    return 0;
}

pw_cpu_instant pw_cpu_extend(pw_cpu *cpu, uint32_t span, pw_time work_ns)
{
    note_changed(cpu, pw_cpu_time(cpu, pw_cpu_end(cpu, span)));
    span_of(cpu, span)->work_ns += work_ns;
    cpu->stretches_are_stale = true;
    return pw_cpu_end(cpu, span);
}

pw_cpu_instant pw_cpu_end(const pw_cpu *cpu, uint32_t span)
{
    return (pw_cpu_instant){.ns = span_of(cpu, span)->work_ns, .span = span};
}

pw_time pw_cpu_time(const pw_cpu *cpu, pw_cpu_instant instant)
{
    return instant.span ? time_in(cpu, span_of(cpu, instant.span), instant.ns) : instant.ns;
}

static void add_stretch(pw_cpu *cpu, pw_cpu_stretch added)
{
    uint32_t place = cpu->num_stretches++;
    for (; place && cpu->stretches[place - 1].start_ns > added.start_ns; place--)
        cpu->stretches[place] = cpu->stretches[place - 1]; /* spans open nearly in order */
    cpu->stretches[place] = added;
}

/* Make one of those that overlap, so that their ends ascend too. */
static void merge_stretches(pw_cpu *cpu)
{
    uint32_t num_kept = 0;
    for (uint32_t i = 0; i < cpu->num_stretches; i++) {
        const pw_cpu_stretch it = cpu->stretches[i];
        pw_cpu_stretch *last = num_kept ? &cpu->stretches[num_kept - 1] : NULL;
        if (!last || it.start_ns >= last->end_ns) cpu->stretches[num_kept++] = it;
        else if (it.end_ns > last->end_ns) last->end_ns = it.end_ns;
    }
    cpu->num_stretches = num_kept;
}

static void find_stretches(pw_cpu *cpu)
{
    cpu->stretches_are_stale = false;
    cpu->num_stretches = 0;
    for (uint32_t id = cpu->first_id; id < cpu->next_id; id++) {
        const pw_cpu_span *span = span_of(cpu, id);
        if (span->id != id) continue;
        const pw_time end_ns = time_in(cpu, span, span->work_ns);
        if (end_ns > span->start_ns) add_stretch(cpu, (pw_cpu_stretch){span->start_ns, end_ns});
    }
    merge_stretches(cpu);
}

/* The first interrupt that ends after at_ns. */
static uint32_t next_busy(const pw_cpu *cpu, pw_time at_ns)
{
    uint32_t low = 0, high = cpu->num_busy;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (busy_ns(cpu, middle) + cpu->interrupt_ns <= at_ns) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint32_t next_stretch(const pw_cpu *cpu, pw_time at_ns)
{
    uint32_t low = 0, high = cpu->num_stretches;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (cpu->stretches[middle].end_ns <= at_ns) low = middle + 1;
        else high = middle;
    }
    return low;
}

pw_time pw_cpu_thread(pw_cpu *cpu, pw_time at_ns, pw_time work_ns)
{
    if (cpu->stretches_are_stale) find_stretches(cpu);
    uint32_t busy = next_busy(cpu, at_ns), stretch = next_stretch(cpu, at_ns);
    for (;;) {
        while (busy < cpu->num_busy && busy_ns(cpu, busy) + cpu->interrupt_ns <= at_ns) busy++;
        while (stretch < cpu->num_stretches && cpu->stretches[stretch].end_ns <= at_ns) stretch++;
        pw_cpu_stretch next = {PW_NEVER, PW_NEVER};
        if (busy < cpu->num_busy)
            next = (pw_cpu_stretch){busy_ns(cpu, busy), busy_ns(cpu, busy) + cpu->interrupt_ns};
        if (stretch < cpu->num_stretches && cpu->stretches[stretch].start_ns < next.start_ns)
            next = cpu->stretches[stretch];
        if (next.start_ns >= at_ns + work_ns) return at_ns + work_ns;
        if (next.start_ns > at_ns) work_ns -= next.start_ns - at_ns;
        at_ns = next.end_ns;
    }
}

void pw_cpu_close(pw_cpu *cpu, uint32_t span)
{
    pw_cpu_span *closed = span_of(cpu, span);
    note_changed(cpu, closed->start_ns);
    closed->id = 0;
    cpu->stretches_are_stale = true;
    if (closed->capacity > KEPT_INTERRUPTS) { /* else every slot grows to the longest run's */
        free(closed->interrupts);
        closed->interrupts = NULL;
        closed->capacity = 0;
    }
    while (cpu->first_id < cpu->next_id && span_of(cpu, cpu->first_id)->id != cpu->first_id)
        cpu->first_id++;
}
