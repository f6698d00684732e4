#include "smmu/user_thread.h"

void pw_user_thread_init(pw_user_thread *thread, const pw_costs *costs, pw_counters *counters, pw_trace *trace,
                         pw_memory *memory, pw_page_in *page_in)
{
    *thread = (pw_user_thread){.costs = costs, .counters = counters, .trace = trace, .memory = memory, .page_in = page_in};
    pw_calendar_init(&thread->cpu);
}

/* A touch was a segmentation fault. A page that is gone is the program's business: the SMMU's walk will
 * find it unmapped. One that is still mapped will never come: the walk would find it absent for ever. */
static int judge_failure(pw_memory *memory, uint64_t page, int code)
{
    uint8_t state;
    int probed = pw_memory_probe(memory, page, 1, &state);
    if (probed < 0) return probed;
    return state == PW_PAGE_UNMAPPED ? PW_OK : code;
}

void pw_user_thread_touch(pw_user_thread *thread, const pw_netlink_message *message, pw_time sent_ns, pw_touch *out)
{
    const pw_costs *costs = thread->costs;
    pw_netlink_fields fields;
    *out = (pw_touch){.end_ns = sent_ns};
    out->code = pw_netlink_unpack(message, &fields);
    if (out->code < 0) return;
    uint8_t effect;
    int code = pw_memory_page_in(thread->memory, fields.page, 1, fields.is_write, &effect);
    out->touched = code == PW_OK;
    if (out->touched) out->effect = effect;
    /* the kernel's work for a page that is not there is the same whether it can bring it in or not (assumed) */
    bool was_there = out->touched && effect == PW_EFFECT_NONE;
    pw_time cost_ns = was_there ? costs->touch_resident_page_ns : costs->touch_absent_page_ns;
    if (out->effect == PW_EFFECT_SWAPPED) cost_ns += costs->major_fault_ns;    /* the thread waits for the device */
    out->end_ns = pw_calendar_book(&thread->cpu, sent_ns + costs->user_wakeup_ns, cost_ns) + cost_ns;
    if (code == PW_ERR_ADDRESS || code == PW_ERR_PROTECTION) {
        thread->counters->touch_segfaults++;
        pw_trace_add(thread->trace, out->end_ns, PW_TRACE_TOUCH_SEGFAULT, fields.page, fields.transaction_id);
        code = judge_failure(thread->memory, fields.page, code);
    }
    out->code = code;
    if (!out->touched) return;
    out->end_ns = pw_later(out->end_ns, pw_page_in_present_ns(thread->page_in, fields.page));
    if (!was_there) out->code = pw_page_in_add(thread->page_in, fields.page, out->end_ns, effect == PW_EFFECT_COPIED);
    thread->counters->pages_touched++;
    pw_trace_add(thread->trace, out->end_ns, PW_TRACE_PAGE_TOUCHED, fields.page, !was_there);
}

bool pw_user_thread_err(pw_user_thread *thread, const pw_netlink_message *message, pw_time at_ns, pw_err_order *out)
{
    pw_netlink_fields fields;
    if (pw_netlink_unpack(message, &fields) < 0) return false;
    const pw_err_order *last = &thread->last_err;
    if (thread->any_err && last->source_node == fields.source_node && last->transaction_id == fields.transaction_id &&
        last->sequence == fields.sequence) return false;
    pw_time cost_ns = thread->costs->err_send_ns;
    pw_time end_ns = pw_calendar_book(&thread->cpu, at_ns, cost_ns) + cost_ns;
    *out = thread->last_err = (pw_err_order){.at_ns = end_ns, .source_node = fields.source_node,
                                             .transaction_id = fields.transaction_id, .sequence = fields.sequence,
                                             .pdid = fields.pdid};
    thread->any_err = true;
    thread->counters->errs_sent++;
    pw_trace_add(thread->trace, end_ns, PW_TRACE_ERR_SENT, fields.transaction_id, fields.sequence);
    return true;
}
