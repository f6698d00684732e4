#include "node/node_trace.h"
#include "node/node_state.h"
#include "node/report/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(pw_trace_record) == 32, "timeline/record_order.c reads them");
_Static_assert(PW_CALL_NAME_BYTES == PW_TRACE_NAME_BYTES, "a call's name goes through whole");
_Static_assert(PW_REGION_PATH_BYTES == PW_TRACE_PATH_BYTES, "and so does a region's path");

/* pw_trace.full: the records are in the file, or the trace ends here. */
static void write_block(pw_trace *trace)
{
    pw_node_trace *to = trace->taker;
    if (!to->failed && !to->path)
        to->failed =
            to->taker.take(to->taker.context, trace->node, trace->records, trace->num_records);
    else if (!to->failed)
        to->failed = pw_output_put(to->descriptor, trace->records,
                                   trace->num_records * sizeof *trace->records);
    if (to->failed) return;
    trace->num_given += trace->num_records;
    trace->num_records = 0;
}

static int start(pw_node *node, const pw_node_trace *started, uint32_t num_records)
{
    pw_node_trace *to = &node->trace;
    const int code = pw_ni_trace_start(node->ni, num_records);
    if (code < 0) return code;
    *to = *started;
    to->trace = pw_ni_trace(node->ni);
    to->trace->full = write_block;
    to->trace->taker = to;
    to->trace->is_detailed = true;
    node->clock.trace = to->trace;
    node->clock.call = &node->calls.current;
    pw_node_trace_strategy(node, &node->strategy_cost); /* of the start */
    return PW_OK;
}

int pw_node_trace_give(pw_node *node, const pw_trace_taker *taker, uint32_t num_records)
{
    return start(node, &(pw_node_trace){.taker = *taker, .descriptor = -1}, num_records);
}

int pw_node_trace_start(pw_node *node, const char *path)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0) return PW_ERR_HOST;
    char *own_path = strdup(path);
    const pw_node_trace started = {.descriptor = descriptor, .path = own_path};
    int code = own_path ? start(node, &started, PW_TRACE_BLOCK_RECORDS) : PW_ERR_NOMEM;
    if (code < 0) {
        free(own_path);
        close(descriptor);
    }
    return code;
}

static void end(pw_node *node)
{
    node->clock.trace = NULL;
    (void)pw_ni_trace_start(node->ni, 0); /* off needs no memory */
    node->trace.trace = NULL;
    free(node->trace.path);
    node->trace.path = NULL;
}

static void add_call_names(pw_node *node)
{
    pw_trace *trace = node->trace.trace;
    for (uint32_t idx = 0; idx < node->calls.num_calls; idx++)
        for (uint32_t part = 0; part < PW_CALL_NAME_BYTES / 16; part++) {
            uint64_t text[2];
            memcpy(text, node->calls.call[idx].name + part * sizeof text, sizeof text);
            pw_trace_detail(trace, part, PW_TRACE_CALL_NAME, idx, text[0], text[1]);
        }
}

int pw_node_trace_finish(pw_node *node)
{
    pw_node_trace *to = &node->trace;
    if (!to->trace) return PW_OK;
    add_call_names(node);
    pw_node_regions_trace(node);
    write_block(to->trace);
    if (to->path && close(to->descriptor) && !to->failed)
        to->failed = errno; /* full, as some tell only here */
    if (to->path && to->failed) unlink(to->path);
    end(node);
    errno = to->failed;
    return to->failed ? PW_ERR_HOST : PW_OK;
}

void pw_node_trace_drop(pw_node *node)
{
    if (!node->trace.trace) return;
    if (node->trace.path) close(node->trace.descriptor);
    end(node);
}

/* A record if the number is another one than at the last. */
static void trace_pages(pw_node *node, enum pw_trace_detail kind, const pw_pinned *pages,
                        uint64_t *num_traced)
{
    if (pages->num_pages == *num_traced) return;
    *num_traced = pages->num_pages;
    pw_trace_detail(node->trace.trace, node->context.now_ns, kind, node->trace.trace->node,
                    *num_traced << PW_PAGE_SHIFT, 0);
}

void pw_node_trace_strategy(pw_node *node, const pw_strategy_cost *cost)
{
    pw_trace *trace = node->trace.trace;
    if (!trace) return;
    const struct {
        enum pw_trace_detail kind;
        int64_t ns;
    } parts[] = {{PW_TRACE_TOUCH, cost->touch_ns},
                 {PW_TRACE_PIN, cost->pin_ns},
                 {PW_TRACE_COPY, cost->copy_ns}};
    int64_t at_ns = node->context.now_ns;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].ns) continue;
        pw_trace_detail(trace, at_ns, parts[i].kind, trace->node, (uint64_t)parts[i].ns, 0);
        at_ns += parts[i].ns;
    }
    trace_pages(node, PW_TRACE_PINNED, &node->context.pinned, &node->trace.pinned_pages);
    trace_pages(node, PW_TRACE_RESIDENT, pw_memory_resident(node->memory),
                &node->trace.resident_pages);
}
