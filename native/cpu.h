/* CPU time of one core in virtual time, at priority levels: interrupts > softirq work > a thread.
 *
 * An interrupt is served at once, one after the other. Softirq work comes in spans: a span starts
 * at a time, never pauses before its end, and may be extended at its end; interrupts preempt it. A
 * thread's work is booked behind all that, preempted by both. Frames arrive physically out of
 * order, so an interrupt may be booked at a time at which a span works already: everything later in
 * the span moves. Hence an instant of a span is kept as work done since its start, and its time is
 * computed when asked for (pw_cpu_time), until whoever keeps it asks no more and closes the span.
 * Not thread-safe. */
#ifndef PW_NATIVE_CPU_H
#define PW_NATIVE_CPU_H
#include "native/types.h"

#define PW_CPU_INTERRUPTS_KEPT 256 /* latest ones, that a thread's work can be preempted by */

typedef struct {
    uint32_t id;         /* 0: not in use */
    pw_time since_ns;    /* what asks for the span, at this time or until the end, joins it */
    pw_time start_ns;    /* the work begins */
    pw_time work_ns;     /* without what preempts it */
    pw_time *interrupts; /* when each begins from its start on, ascending */
    uint32_t num_interrupts, capacity;
} pw_cpu_span;

/* From its start to its end; several that overlap may be one. */
typedef struct {
    pw_time start_ns, end_ns;
} pw_cpu_stretch;

/* An instant: a time (span 0), or work done in a span. */
typedef struct {
    pw_time ns;
    uint32_t span;
} pw_cpu_instant;

typedef struct {
    pw_time interrupt_ns; /* an interrupt takes this long */
    pw_time *busy; /* ring of PW_CPU_INTERRUPTS_KEPT: when the latest interrupts begin, ascending;
                    * NULL: none yet */
    uint32_t first_busy, num_busy;
    pw_cpu_span *spans;                    /* by id: a ring, a power of two */
    uint32_t num_slots, next_id, first_id; /* open ones: first_id <= id < next_id */
    pw_cpu_stretch *stretches;             /* what the open spans take up, ascending; num_slots */
    uint32_t num_stretches;
    bool stretches_are_stale; /* a span has changed since */
    pw_time changed_ns;       /* see pw_cpu_take_changed */
} pw_cpu;

void pw_cpu_init(pw_cpu *cpu, pw_time interrupt_ns);
void pw_cpu_destroy(pw_cpu *cpu);
/* Book an interrupt that is raised at at_ns: when its handler begins. PW_ERR_NOMEM is negative, as
 * no time is. *preempts: it interrupts a span. */
pw_time pw_cpu_interrupt(pw_cpu *cpu, pw_time at_ns, bool *preempts);
/* Open a span of work asked for at since_ns that begins at start_ns: its id, or 0 without memory.
 */
uint32_t pw_cpu_open(pw_cpu *cpu, pw_time since_ns, pw_time start_ns);
/* The span that work asked for at at_ns joins: the latest that has not ended then; 0: none. */
uint32_t pw_cpu_find(const pw_cpu *cpu, pw_time at_ns);
/* More work at the span's end. Returns the instant at which it is done. */
pw_cpu_instant pw_cpu_extend(pw_cpu *cpu, uint32_t span, pw_time work_ns);
/* How many interrupts have preempted the span. */
uint32_t pw_cpu_num_preemptions(const pw_cpu *cpu, uint32_t span);
/* The span's end as it is now. */
pw_cpu_instant pw_cpu_end(const pw_cpu *cpu, uint32_t span);
pw_time pw_cpu_time(const pw_cpu *cpu, pw_cpu_instant instant);
/* When work_ns of a thread's work are done that begins at at_ns or as soon as nothing above runs.
 */
pw_time pw_cpu_thread(pw_cpu *cpu, pw_time at_ns, pw_time work_ns);
/* No instant of the span is asked for any more. */
void pw_cpu_close(pw_cpu *cpu, uint32_t span);
/* What instants and a thread's work were up to this time, they still are since this was asked last;
 * PW_NEVER: all of it. */
pw_time pw_cpu_take_changed(pw_cpu *cpu);
#endif
