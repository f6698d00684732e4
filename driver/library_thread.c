/* The Netlink message, the table of faulting blocks, and the thread that works on both. */
#include "driver/library_thread.h"
#include "native/array.h"
#include <stdlib.h>

#define FIRST_BUCKETS 16u

enum { SOURCE_NODE, TRANSACTION_ID, SEQUENCE, PAGE, PDID, IS_WRITE, NUM_FIELDS };
static const struct {
    uint8_t bits, digits;
} widths[NUM_FIELDS] = {{22, 6}, {14, 4}, {14, 4}, {PW_NETLINK_PAGE_BITS, 9}, {16, 4}, {1, 1}};
_Static_assert(6 + 4 + 4 + 9 + 4 + 1 == PW_NETLINK_DIGITS, "the fields fill the message");

int pw_netlink_pack(const pw_netlink_fields *fields, pw_netlink_message *out)
{
    const uint64_t values[NUM_FIELDS] = {fields->source_node, fields->transaction_id,
                                         fields->sequence,    fields->page,
                                         fields->pdid,        fields->is_write};
    uint32_t end = 0;
    for (int i = 0; i < NUM_FIELDS; i++) {
        uint64_t rest = values[i];
        if (rest >> widths[i].bits) return PW_ERR_INVALID;
        end += widths[i].digits;
        for (uint32_t digit = 1; digit <= widths[i].digits; digit++, rest >>= 4)
            out->digits[end - digit] = "0123456789abcdef"[rest & 15];
    }
    return PW_OK;
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int pw_netlink_unpack(const pw_netlink_message *message, pw_netlink_fields *out)
{
    uint64_t values[NUM_FIELDS] = {0};
    const char *next = message->digits;
    for (int i = 0; i < NUM_FIELDS; i++) {
        for (uint32_t digit = 0; digit < widths[i].digits; digit++) {
            int value = digit_value(*next++);
            if (value < 0) return PW_ERR_MALFORMED;
            values[i] = values[i] << 4 | (uint64_t)value;
        }
        if (values[i] >> widths[i].bits) return PW_ERR_MALFORMED;
    }
    *out = (pw_netlink_fields){
        .source_node = (uint32_t)values[SOURCE_NODE],
        .transaction_id = (uint16_t)values[TRANSACTION_ID],
        .sequence = (uint16_t)values[SEQUENCE],
        .page = values[PAGE],
        .pdid = (uint16_t)values[PDID],
        .is_write = values[IS_WRITE] != 0,
    };
    return PW_OK;
}

void pw_faulting_blocks_destroy(pw_faulting_blocks *table)
{
    pw_pool_finish(&table->pool);
    free(table->buckets);
    *table = (pw_faulting_blocks){.pool.free_list = NULL};
}

static pw_faulting_block **bucket(const pw_faulting_blocks *table, const pw_fault *fault)
{
    uint64_t key =
        (uint64_t)fault->source_node << 32 | (uint64_t)fault->pdid << 16 | fault->transaction_id;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return &table->buckets[hash & (table->num_buckets - 1)];
}

/* Twice as many; each chain keeps its order. */
static int more_buckets(pw_faulting_blocks *table)
{
    const pw_faulting_blocks before = *table;
    table->num_buckets = before.num_buckets ? 2 * before.num_buckets : FIRST_BUCKETS;
    table->buckets = calloc(table->num_buckets, sizeof *table->buckets);
    if (!table->buckets) {
        *table = before;
        return PW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < before.num_buckets; i++)
        for (pw_faulting_block *each = before.buckets[i], *next; each; each = next) {
            pw_faulting_block **end = bucket(table, &each->fault);
            while (*end) end = &(*end)->next;
            next = each->next;
            each->next = NULL;
            *end = each;
        }
    free(before.buckets);
    return PW_OK;
}

static bool has_same_numbers(const pw_fault *a, const pw_fault *b)
{
    return a->source_node == b->source_node && a->pdid == b->pdid &&
           a->transaction_id == b->transaction_id && a->sequence == b->sequence;
}

pw_faulting_block *pw_faulting_blocks_of_entry(const pw_faulting_blocks *table,
                                               const pw_fault *numbers)
{
    pw_faulting_block *oldest = NULL; /* the chain's newest stands first */
    if (!table->num_blocks) return NULL;
    for (pw_faulting_block *block = *bucket(table, numbers); block; block = block->next)
        if (block->num_entries && has_same_numbers(&block->fault, numbers)) oldest = block;
    return oldest;
}

pw_faulting_block *pw_faulting_blocks_find(const pw_faulting_blocks *table, const pw_fault *fault)
{
    pw_faulting_block *block = table->num_blocks ? *bucket(table, fault) : NULL;
    while (block &&
           !(block->fault.identity == fault->identity && has_same_numbers(&block->fault, fault)))
        block = block->next;
    return block;
}

pw_faulting_block *pw_faulting_blocks_note(pw_faulting_blocks *table, const pw_fault *fault)
{
    pw_faulting_block *block = pw_faulting_blocks_find(table, fault);
    if (block) {
        block->fault = *fault; /* the notification's page has bounds of its own */
        return block;
    }
    if (table->num_blocks == table->num_buckets && more_buckets(table) < 0) return NULL;
    block = pw_pool_take(&table->pool, sizeof *block);
    if (!block) return NULL;
    pw_faulting_block **home = bucket(table, fault);
    *block = (pw_faulting_block){.next = *home, .fault = *fault};
    *home = block;
    table->num_blocks++;
    return block;
}

void pw_faulting_blocks_release(pw_faulting_blocks *table, pw_faulting_block *block)
{
    if (block->num_entries || block->err_pending) return;
    pw_faulting_block **link = bucket(table, &block->fault);
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    table->num_blocks--;
    pw_pool_give(&table->pool, block);
}

void pw_library_thread_destroy(pw_library_thread *thread)
{
    pw_wakeup *lists[] = {thread->first, thread->free_wakeups};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            pw_wakeup *wakeup = lists[i];
            lists[i] = wakeup->next;
            free(wakeup->messages);
            free(wakeup);
        }
    thread->first = thread->last = thread->free_wakeups = NULL;
    for (int i = 0; i < PW_NUM_SENDERS; i++) thread->last_of[i] = NULL;
}

static bool has_own_core(const pw_library_thread *thread, enum pw_err_sender sender)
{
    return sender == PW_SENDER_THREAD && thread->settings->library_core == PW_LIBRARY_CORE_OTHER;
}

static pw_time wakeup_ns(const pw_library_thread *thread, enum pw_err_sender sender)
{
    return sender == PW_SENDER_THREAD ? thread->costs->user_wakeup_ns : 0;
}

/* Work of the sender from at_ns on, with what preempts it: when it is done. */
static pw_time work(const pw_library_thread *thread, enum pw_err_sender sender, pw_time at_ns,
                    pw_time work_ns)
{
    return has_own_core(thread, sender) ? at_ns + work_ns
                                        : pw_cpu_thread(thread->cpu, at_ns, work_ns);
}

/* --- when it does what --- */

/* Handle the messages [first, end), which wait at at_ns; when the thread has done so. */
static pw_time handle_batch(const pw_library_thread *thread, pw_wakeup *wakeup, uint32_t first,
                            uint32_t end, pw_time at_ns)
{
    for (uint32_t i = first; i < end; i++) {
        pw_library_message *message = &wakeup->messages[i];
        if (!message->touch_ns) continue;
        at_ns = message->touched_ns = work(thread, wakeup->sender, at_ns, message->touch_ns);
        if (message->has_record)
            pw_trace_move(message->user->trace, message->record, &message->record_ns, at_ns);
    }
    for (uint32_t i = first; i < end; i++) {
        pw_library_message *message = &wakeup->messages[i];
        if (message->err_ns == PW_NEVER) continue;
        at_ns = message->err_ns = work(thread, wakeup->sender, at_ns, thread->costs->err_send_ns);
    }
    return at_ns;
}

static pw_time wakes_ns(const pw_library_thread *thread, const pw_wakeup *wakeup)
{
    return pw_cpu_time(thread->cpu, has_own_core(thread, wakeup->sender)
                                        ? wakeup->messages[0].sent
                                        : pw_cpu_end(thread->cpu, wakeup->first_span));
}

/* The thread has its core, and looks at what waits. */
static pw_time awake_ns(const pw_library_thread *thread, const pw_wakeup *wakeup)
{
    return work(thread, wakeup->sender, wakes_ns(thread, wakeup),
                wakeup_ns(thread, wakeup->sender));
}

/* The messages that wait at at_ns when the sender comes to the first of those not handled, or the
 * next one; the first behind them. Without touches it makes no difference who waits together. */
static uint32_t batch_end(const pw_library_thread *thread, const pw_wakeup *wakeup, pw_time *at_ns)
{
    uint32_t end = wakeup->num_handled;
    const pw_time sent_ns = pw_cpu_time(thread->cpu, wakeup->messages[end++].sent);
    const bool sleeps = sent_ns > *at_ns;
    *at_ns = pw_later(*at_ns, sent_ns);
    while (wakeup->has_touches && !sleeps && end < wakeup->num_messages &&
           pw_cpu_time(thread->cpu, wakeup->messages[end].sent) <= *at_ns)
        end++;
    return end;
}

/* The times of those that are handled before a change stay as they are. */
static void note_changes(pw_library_thread *thread)
{
    const pw_time since_ns = pw_cpu_take_changed(thread->cpu);
    if (since_ns == PW_NEVER) return;
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next) {
        uint32_t num = wakeup->num_handled;
        while (num && wakeup->messages[num - 1].handled_ns >= since_ns) num--;
        wakeup->num_handled = wakeup->has_touches && num < wakeup->num_handled ? 0 : num;
    }
}

/* Find the times of the first num messages, and of all that are handled until then. When the sender
 * is done with what is handled. */
static pw_time refresh(pw_library_thread *thread, pw_wakeup *wakeup, uint32_t num, pw_time until_ns)
{
    const bool is_in_run = wakeup->sender == PW_SENDER_IN_RUN; /* whose work it is then */
    note_changes(thread);
    pw_time at_ns = is_in_run ? INT64_MIN : awake_ns(thread, wakeup);
    if (wakeup->num_handled) at_ns = wakeup->messages[wakeup->num_handled - 1].handled_ns;
    while (wakeup->num_handled < wakeup->num_messages &&
           (wakeup->num_handled < num || at_ns <= until_ns)) {
        const uint32_t first = wakeup->num_handled;
        const uint32_t end = batch_end(thread, wakeup, &at_ns);
        if (is_in_run) wakeup->messages[first].err_ns = at_ns;
        else at_ns = handle_batch(thread, wakeup, first, end, at_ns);
        for (uint32_t i = first; i < end; i++) wakeup->messages[i].handled_ns = at_ns;
        wakeup->num_handled = end;
    }
    return at_ns;
}

/* When the thread, alone on its core or behind the tasklet, has done all that it has to. */
static pw_time sleeps_ns(pw_library_thread *thread, pw_wakeup *wakeup)
{
    const enum pw_err_sender sender = wakeup->sender;
    if (sender == PW_SENDER_IN_RUN)
        return pw_cpu_time(thread->cpu, wakeup->messages[wakeup->num_messages - 1].sent);
    if (!has_own_core(thread, sender))
        return work(thread, sender, wakes_ns(thread, wakeup), wakeup->work_ns);
    return refresh(thread, wakeup, wakeup->num_messages, PW_NEVER);
}

/* When the thread touches the pages, as things are now; not is_known: later than anybody asks. */
static void note_presence(pw_library_thread *thread, pw_wakeup *wakeup, bool is_known)
{
    if (is_known) refresh(thread, wakeup, wakeup->num_messages, PW_NEVER);
    wakeup->is_noted = wakeup->was_noted = is_known;
    wakeup->noted_version = thread->version;
    for (uint32_t i = 0; i < wakeup->num_messages; i++) {
        const pw_library_message *message = &wakeup->messages[i];
        if (!message->notes_presence) continue;
        const pw_time at_ns = is_known ? message->touched_ns : PW_NEVER;
        pw_presence_add(message->user->presence, message->page, (pw_cpu_instant){.ns = at_ns},
                        message->is_permission);
    }
}

void pw_library_thread_update(pw_library_thread *thread)
{
    thread->version++;
    thread->touches_are_stale = true;
}

/* What a thread touches that is kept from its core until after at_ns may stay unknown: else each
 * access would ask for the times of all that waits. */
void pw_library_thread_catch_up(pw_library_thread *thread, pw_time at_ns)
{
    if (!thread->touches_are_stale || thread->settings->page_in != PW_PAGE_IN_TOUCH_A_PAGE) return;
    thread->touches_are_stale = false;
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next) {
        const bool may_move = wakeup->num_errs || wakeup == thread->last_of[wakeup->sender];
        if (wakeup->is_noted && (!may_move || wakeup->noted_version == thread->version)) continue;
        const bool is_known = awake_ns(thread, wakeup) <= at_ns;
        if (is_known || wakeup->was_noted) note_presence(thread, wakeup, is_known);
        thread->touches_are_stale |= !is_known;
    }
}

/* --- messages --- */

static pw_wakeup *new_wakeup(pw_library_thread *thread, enum pw_err_sender sender, uint32_t span,
                             pw_time since_ns)
{
    pw_wakeup *wakeup = thread->free_wakeups;
    if (wakeup) thread->free_wakeups = wakeup->next;
    else if (!(wakeup = calloc(1, sizeof *wakeup))) return NULL;
    pw_library_message *messages = wakeup->messages;
    *wakeup = (pw_wakeup){.sender = sender,
                          .first_span = span,
                          .oldest_span = span,
                          .newest_span = span,
                          .since_ns = since_ns,
                          .work_ns = wakeup_ns(thread, sender),
                          .first_unsent = PW_NO_MESSAGE,
                          .messages = messages,
                          .capacity = wakeup->capacity};
    if (thread->last) thread->last->next = wakeup;
    else thread->first = wakeup;
    thread->last = thread->last_of[sender] = wakeup;
    return wakeup;
}

/* Does a message of the run belong to the wake-up, its sender's last? */
static bool joins(pw_library_thread *thread, pw_wakeup *last, pw_cpu_instant sent, pw_time since_ns)
{
    const bool own_core = has_own_core(thread, last->sender);
    if (!own_core && last->last_span == sent.span) return true;
    if (last->sender == PW_SENDER_IN_RUN) return false;
    const pw_time arrives_ns = own_core ? pw_cpu_time(thread->cpu, sent) : since_ns;
    return since_ns >= last->since_ns && arrives_ns < sleeps_ns(thread, last);
}

/* A message of the run, about the page, in the wake-up that it belongs to. NULL: no memory. */
static pw_library_message *new_message(const pw_library_user *user, enum pw_err_sender sender,
                                       pw_cpu_instant sent, pw_time since_ns, uint64_t page)
{
    pw_library_thread *thread = user->thread;
    pw_wakeup *wakeup = thread->last_of[sender];
    if (!wakeup || !joins(thread, wakeup, sent, since_ns))
        wakeup = new_wakeup(thread, sender, sent.span, since_ns);
    if (!wakeup ||
        PW_ARRAY_MAKE_ROOM(wakeup->messages, wakeup->num_messages, wakeup->capacity, 2) < 0)
        return NULL;
    wakeup->last_span = sent.span;
    if (sent.span < wakeup->oldest_span) wakeup->oldest_span = sent.span;
    if (sent.span > wakeup->newest_span) wakeup->newest_span = sent.span;
    if (wakeup->has_touches) wakeup->num_handled = 0; /* it may wait together with others */
    pw_library_message *message = &wakeup->messages[wakeup->num_messages++];
    *message = (pw_library_message){.user = user, .sent = sent, .page = page, .err_ns = PW_NEVER};
    pw_library_thread_update(thread);
    return message;
}

/* The sender's last message orders the block's ERR. */
static void order_err(pw_library_thread *thread, pw_wakeup *wakeup, pw_faulting_block *block)
{
    const uint32_t idx = wakeup->num_messages - 1;
    pw_library_message *message = &wakeup->messages[idx];
    if (wakeup->first_unsent == PW_NO_MESSAGE) wakeup->first_unsent = idx;
    else wakeup->messages[wakeup->last_unsent].next_unsent = idx;
    wakeup->last_unsent = idx;
    block->err_ordered = block->err_pending = true;
    block->err_wakeup = wakeup;
    block->err_message = idx;
    message->block = block;
    message->next_unsent = PW_NO_MESSAGE;
    message->err_ns = 0;
    message->err_ordinal = ++wakeup->num_errs_ordered;
    wakeup->num_errs++;
    wakeup->work_ns += thread->costs->err_send_ns;
    message->user->counters->errs_sent++;
}

/* A touch was a segmentation fault. A page that is gone is the program's business: the SMMU's walk
 * will find it unmapped. One that is still mapped will never come: the walk would find it absent
 * for ever. */
static int judge_failure(pw_memory *memory, uint64_t page, int code)
{
    uint8_t state;
    int probed = pw_memory_probe(memory, page, 1, &state);
    if (probed < 0) return probed;
    return state == PW_PAGE_UNMAPPED ? PW_OK : code;
}

/* Add the touch's record to the trace; its time follows (handle_batch). */
static void trace_touch(pw_library_message *message, enum pw_trace_kind kind, uint64_t what)
{
    pw_trace *trace = message->user->trace;
    uint64_t lost = trace->lost;
    pw_trace_add(trace, 0, kind, message->page, what);
    message->has_record = trace->records && lost == trace->lost;
    message->record = pw_trace_next(trace) - 1;
    message->record_ns = 0;
}

void pw_library_thread_forget_records(const pw_library_user *user)
{
    for (pw_wakeup *wakeup = user->thread->first; wakeup; wakeup = wakeup->next)
        for (uint32_t i = 0; i < wakeup->num_messages; i++)
            if (wakeup->messages[i].user == user) wakeup->messages[i].has_record = false;
}

static void touch_page(const pw_netlink_fields *fields, pw_library_message *message, pw_touch *out)
{
    const pw_library_user *user = message->user;
    const pw_costs *costs = user->thread->costs;
    uint8_t effect = PW_EFFECT_NONE;
    out->code = pw_memory_page_in(user->memory, fields->page, 1, fields->is_write, &effect);
    out->touched = out->code == PW_OK;
    out->effect = out->touched ? effect : PW_EFFECT_NONE;
    /* the kernel's work for a page that is not there is the same whether it can bring it in or not
     * (assumed) */
    bool was_there = out->touched && effect == PW_EFFECT_NONE;
    message->touch_ns = was_there ? costs->touch_resident_page_ns : costs->touch_absent_page_ns;
    message->touch_ns += pw_effect_ns(costs, out->effect);
    message->notes_presence = out->touched && !was_there;
    message->is_permission = effect == PW_EFFECT_COPIED;
    user->counters->pages_touched += out->touched;
    if (out->touched) trace_touch(message, PW_TRACE_PAGE_TOUCHED, !was_there);
    if (out->code != PW_ERR_ADDRESS && out->code != PW_ERR_PROTECTION) return;
    user->counters->touch_segfaults++;
    trace_touch(message, PW_TRACE_TOUCH_SEGFAULT, fields->transaction_id);
    out->code = judge_failure(user->memory, fields->page, out->code);
}

int pw_library_thread_take(const pw_library_user *user, const pw_netlink_message *packed,
                           pw_cpu_instant sent, pw_time since_ns, pw_faulting_block *block,
                           bool touch, bool wants_err, pw_touch *out)
{
    pw_netlink_fields fields;
    *out = (pw_touch){.touched = true};
    int code = pw_netlink_unpack(packed, &fields);
    if (code < 0) return code;
    pw_library_message *message = new_message(user, PW_SENDER_THREAD, sent, since_ns, fields.page);
    if (!message) return PW_ERR_NOMEM;
    pw_wakeup *wakeup = user->thread->last_of[PW_SENDER_THREAD];
    if (touch) touch_page(&fields, message, out);
    if (message->notes_presence && /* nobody has caught up with the touch yet */
        pw_presence_add(user->presence, fields.page, (pw_cpu_instant){.ns = PW_NEVER},
                        message->is_permission) < 0)
        return PW_ERR_NOMEM;
    if (message->touch_ns) {
        wakeup->work_ns += message->touch_ns;
        wakeup->has_touches = true;
        wakeup->num_handled = 0;
    }
    wakeup->is_noted = false;
    if (block && wants_err && out->touched && out->code == PW_OK && !block->err_ordered)
        order_err(user->thread, wakeup, block);
    return PW_OK;
}

int pw_library_thread_order(const pw_library_user *user, enum pw_err_sender sender,
                            pw_cpu_instant sent, pw_time since_ns, pw_faulting_block *block)
{
    if (!new_message(user, sender, sent, since_ns, 0)) return PW_ERR_NOMEM;
    order_err(user->thread, user->thread->last_of[sender], block);
    return PW_OK;
}

/* --- ERRs --- */

/* The message that orders the block's ERR, while that is not sent. */
static pw_library_message *message_of(const pw_faulting_block *block)
{
    return block->err_pending ? &block->err_wakeup->messages[block->err_message] : NULL;
}

/* All messages wait at at_ns, when the thread looks for some: it touches all pages first. */
static bool is_one_batch(const pw_library_thread *thread, const pw_wakeup *wakeup, pw_time at_ns)
{
    for (uint32_t span = wakeup->oldest_span; span <= wakeup->newest_span; span++)
        if (pw_cpu_time(thread->cpu, pw_cpu_end(thread->cpu, span)) > at_ns) return false;
    return true;
}

/* Without the time of each message while the tasklet keeps the thread from its core: as many may
 * wait as there are blocks sent again. */
static pw_time err_ns_of(pw_library_thread *thread, pw_wakeup *wakeup,
                         const pw_library_message *message)
{
    const enum pw_err_sender sender = wakeup->sender;
    if (sender == PW_SENDER_IN_RUN) return pw_cpu_time(thread->cpu, message->sent);
    const pw_time begins_ns = awake_ns(thread, wakeup);
    if (has_own_core(thread, sender) || !is_one_batch(thread, wakeup, begins_ns)) {
        refresh(thread, wakeup, (uint32_t)(message - wakeup->messages) + 1, INT64_MIN);
        return message->err_ns;
    }
    const uint32_t num_later = wakeup->num_errs_ordered - message->err_ordinal;
    const pw_time later_ns = num_later * thread->costs->err_send_ns;
    return work(thread, sender, begins_ns, wakeup->work_ns - wakeup_ns(thread, sender) - later_ns);
}

pw_time pw_library_thread_err_ns(pw_library_thread *thread, const pw_faulting_block *block)
{
    const pw_library_message *message = message_of(block);
    if (!message) return PW_NEVER;
    pw_wakeup *wakeup = block->err_wakeup;
    bool is_last = wakeup == thread->last_of[wakeup->sender] &&
                   message == &wakeup->messages[wakeup->num_messages - 1];
    if (is_last) return sleeps_ns(thread, wakeup); /* all others come before */
    return err_ns_of(thread, wakeup, message);
}

void pw_library_thread_lose_err(const pw_faulting_block *block)
{
    pw_library_message *message = message_of(block);
    if (message) message->is_lost = true;
}

static bool is_final(const pw_library_message *message)
{
    const pw_time *bound_ns = message->block->fault.bound_ns;
    return !bound_ns || *bound_ns >= message->err_ns;
}

static pw_err_order order_of(const pw_library_message *message)
{
    const pw_fault *fault = &message->block->fault;
    return (pw_err_order){.at_ns = message->err_ns,
                          .identity = fault->identity,
                          .source_node = fault->source_node,
                          .transaction_id = fault->transaction_id,
                          .sequence = fault->sequence,
                          .pdid = fault->pdid,
                          .is_lost = message->is_lost};
}

static void send_err(pw_wakeup *wakeup, pw_library_message *message, pw_err_order *out)
{
    *out = order_of(message);
    pw_trace_add_of(message->user->trace, out->at_ns, PW_TRACE_ERR_SENT, out->source_node,
                    out->transaction_id, out->sequence);
    message->block->err_pending = false;
    pw_faulting_blocks_release(message->user->blocks, message->block);
    message->block = NULL;
    wakeup->num_errs--;
}

/* No ERR of the wake-up leaves earlier: short of the touches. */
static pw_time earliest_err_ns(const pw_library_thread *thread, const pw_wakeup *wakeup)
{
    const enum pw_err_sender sender = wakeup->sender;
    if (sender == PW_SENDER_IN_RUN)
        return pw_cpu_time(thread->cpu, wakeup->messages[wakeup->first_unsent].sent);
    const pw_time work_ns = wakeup_ns(thread, sender) + thread->costs->err_send_ns;
    return work(thread, sender, wakes_ns(thread, wakeup), work_ns);
}

/* It is the user's, and no bound holds the ERR back any more. */
static bool is_released(const pw_library_message *message, const pw_library_user *user)
{
    return message->user == user && !message->block->fault.bound_ns;
}

/* The user's next ERR of the wake-up that is final; PW_NO_MESSAGE: none. *before: the one before it
 * that is not sent. What is handled later than any bound is final when it is released. */
static uint32_t find_final(const pw_library_user *user, pw_wakeup *wakeup, bool some_are_released,
                           uint32_t *before)
{
    pw_library_thread *thread = user->thread;
    uint32_t idx = wakeup->first_unsent;
    refresh(thread, wakeup, 0, thread->latest_bound_ns);
    for (*before = PW_NO_MESSAGE; idx < wakeup->num_handled;
         idx = wakeup->messages[idx].next_unsent) {
        const pw_library_message *message = &wakeup->messages[idx];
        if (message->user == user && is_final(message)) return idx;
        *before = idx;
    }
    while (some_are_released && idx != PW_NO_MESSAGE &&
           !is_released(&wakeup->messages[idx], user)) {
        *before = idx;
        idx = wakeup->messages[idx].next_unsent;
    }
    if (!some_are_released || idx == PW_NO_MESSAGE) return PW_NO_MESSAGE;
    refresh(thread, wakeup, idx + 1, INT64_MIN);
    return idx;
}

static void unlink(pw_wakeup *wakeup, uint32_t idx, uint32_t before)
{
    const uint32_t next = wakeup->messages[idx].next_unsent;
    if (before == PW_NO_MESSAGE) wakeup->first_unsent = next;
    else wakeup->messages[before].next_unsent = next;
    if (next == PW_NO_MESSAGE) wakeup->last_unsent = before;
}

bool pw_library_thread_next_err(const pw_library_user *user, pw_time known_ns, pw_err_order *out)
{
    pw_library_thread *thread = user->thread;
    const bool some_are_released = known_ns == PW_NEVER;
    if (!some_are_released) thread->latest_bound_ns = pw_later(thread->latest_bound_ns, known_ns);
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next) {
        if (!wakeup->num_errs || earliest_err_ns(thread, wakeup) > known_ns) continue;
        uint32_t before;
        const uint32_t idx = find_final(user, wakeup, some_are_released, &before);
        if (idx == PW_NO_MESSAGE) continue;
        unlink(wakeup, idx, before);
        send_err(wakeup, &wakeup->messages[idx], out);
        return true;
    }
    return false;
}

/* The user's first ERR of the wake-up that is not sent; NULL: none. */
static const pw_library_message *first_of(const pw_library_user *user, const pw_wakeup *wakeup)
{
    uint32_t idx = wakeup->first_unsent;
    while (idx != PW_NO_MESSAGE && wakeup->messages[idx].user != user)
        idx = wakeup->messages[idx].next_unsent;
    return idx == PW_NO_MESSAGE ? NULL : &wakeup->messages[idx];
}

pw_time pw_library_thread_next_err_ns(const pw_library_user *user)
{
    pw_library_thread *thread = user->thread;
    pw_time next_ns = PW_NEVER;
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next) {
        const pw_library_message *message = wakeup->num_errs ? first_of(user, wakeup) : NULL;
        if (message) next_ns = pw_earlier(next_ns, err_ns_of(thread, wakeup, message));
    }
    return next_ns;
}

void pw_library_thread_release(pw_library_thread *thread, const pw_time *bound_ns)
{
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next)
        for (uint32_t i = wakeup->first_unsent; i != PW_NO_MESSAGE;
             i = wakeup->messages[i].next_unsent) {
            pw_fault *fault = &wakeup->messages[i].block->fault;
            if (fault->bound_ns == bound_ns) fault->bound_ns = NULL;
        }
}

bool pw_library_thread_earliest_err(pw_library_thread *thread, const pw_time *bound_ns,
                                    pw_err_order *out)
{
    for (pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next)
        for (uint32_t i = wakeup->first_unsent; i != PW_NO_MESSAGE;
             i = wakeup->messages[i].next_unsent) {
            const pw_library_message *message = &wakeup->messages[i];
            if (message->block->fault.bound_ns != bound_ns) continue;
            *out = order_of(message);
            out->at_ns = earliest_err_ns(thread, wakeup);
            if (out->at_ns > *bound_ns) return true;
            out->at_ns = err_ns_of(thread, wakeup, message);
            return true;
        }
    return false;
}

#define KEPT_MESSAGES 64u /* of a wake-up that is over: else each grows to what the longest had */

static void forget_first(pw_library_thread *thread)
{
    pw_wakeup *wakeup = thread->first;
    if (!wakeup->is_noted) note_presence(thread, wakeup, true);
    thread->first = wakeup->next;
    if (!thread->first) thread->last = NULL;
    if (wakeup == thread->last_of[wakeup->sender]) thread->last_of[wakeup->sender] = NULL;
    if (wakeup->capacity > KEPT_MESSAGES) {
        free(wakeup->messages);
        wakeup->messages = NULL;
        wakeup->capacity = 0;
    }
    wakeup->next = thread->free_wakeups;
    thread->free_wakeups = wakeup;
}

/* The last one may still be joined: by messages of its own run while that is the last, or of faults
 * before it sleeps. */
static bool is_over(pw_library_thread *thread, pw_wakeup *wakeup, pw_time since_ns,
                    uint32_t last_span)
{
    if (wakeup->num_errs) return false;
    return wakeup != thread->last_of[wakeup->sender] ||
           (wakeup->last_span < last_span && sleeps_ns(thread, wakeup) <= since_ns);
}

uint32_t pw_library_thread_first_span(pw_library_thread *thread, pw_time since_ns,
                                      uint32_t last_span)
{
    while (thread->first && is_over(thread, thread->first, since_ns, last_span))
        forget_first(thread);
    uint32_t oldest = thread->first ? thread->first->oldest_span : 0;
    for (const pw_wakeup *wakeup = thread->first; wakeup; wakeup = wakeup->next)
        if (wakeup->oldest_span < oldest) oldest = wakeup->oldest_span;
    return oldest;
}
