/* A node's report as JSON, made of what was counted. */
#include "node/report/call_counts.h"
#include "node/report/report.h"
#include "native/array.h"
#include "native/fields.h"
#include "node/report/output_file.h"
#include "node/report/program_regions.h"
#include <string.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

int pw_call_index(pw_call_counts *counts, const char *name)
{
    size_t num_bytes = name ? strnlen(name, PW_CALL_NAME_BYTES) : 0;
    if (num_bytes == 0 || num_bytes == PW_CALL_NAME_BYTES) return PW_ERR_INVALID;
    for (uint32_t idx = 0; idx < counts->num_calls; idx++)
        if (strcmp(counts->call[idx].name, name) == 0) return (int)idx;
    if (counts->num_calls == PW_CALLS_MAX) return PW_ERR_FULL;
    if (PW_ARRAY_MAKE_ROOM(counts->call, counts->num_calls, counts->capacity, 8) < 0)
        return PW_ERR_NOMEM;
    pw_call_count *count = &counts->call[counts->num_calls];
    *count = (pw_call_count){0};
    memcpy(count->name, name, num_bytes);
    return (int)counts->num_calls++;
}

void pw_call_counts_finish(pw_call_counts *counts)
{
    free(counts->call);
    *counts = (pw_call_counts){0};
}

void pw_call_begin(pw_call_counts *counts, uint32_t idx)
{
    counts->call[idx].calls++;
    counts->current = idx;
}

/* JSON text that grows; counts on when the buffer is full. */
typedef struct {
    char *buffer;
    size_t capacity, length;
} json;

static void put(json *out, const char *text, size_t num_bytes)
{
    if (out->length < out->capacity && num_bytes < out->capacity - out->length) {
        memcpy(out->buffer + out->length, text, num_bytes);
        out->buffer[out->length + num_bytes] = '\0';
    }
    out->length += num_bytes;
}

/* Of numbers and names of fields, which are short. */
__attribute__((format(printf, 2, 3))) static void put_format(json *out, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    int num_bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(out, text, (size_t)num_bytes);
}

/* Bytes of the UTF-8 character that text begins with, 0 when it is none. */
static size_t utf8_bytes(const char *text, size_t num_bytes)
{
    const uint8_t *at = (const uint8_t *)text;
    uint32_t code;
    size_t more = at[0] < 0x80 ? 0 : at[0] < 0xe0 ? 1 : at[0] < 0xf0 ? 2 : 3;
    if (!more) return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4 || more >= num_bytes) return 0;
    code = at[0] & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
    if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return 0;
    return more + 1;
}

/* Bytes that are no UTF-8 become the replacement character. */
static void put_text(json *out, const char *text, size_t capacity)
{
    size_t num_bytes = strnlen(text, capacity), step;
    put(out, "\"", 1);
    for (size_t i = 0; i < num_bytes; i += step ? step : 1) {
        unsigned char each = (unsigned char)text[i];
        step = utf8_bytes(text + i, num_bytes - i);
        if (!step) put(out, "\\ufffd", 6);
        else if (each < ' ') put_format(out, "\\u%04x", each);
        else if (each == '"' || each == '\\') put_format(out, "\\%c", each);
        else put(out, text + i, step);
    }
    put(out, "\"", 1);
}

static void put_name(json *out, const char *name, size_t capacity)
{
    put_text(out, name, capacity);
    put(out, ": ", 2);
}

static void put_field(json *out, const pw_field *field, const void *owner)
{
    const char *at = (const char *)owner + field->offset;
    if (field->kind == PW_FIELD_INT64)
        put_format(out, "%" PRId64, *(const int64_t *)(const void *)at);
    else put_format(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
}

static void put_list(json *out, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) put_format(out, "%s%" PRIu64, i ? ", " : "[", numbers[i]);
    put(out, "]", 1);
}

/* A sum that 64 bits may not hold is exact all the same. */
static void put_sum(json *out, const char *name, const uint64_t *numbers, size_t count)
{
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < count; i++) sum += numbers[i];
    const uint64_t base = UINT64_C(10000000000000000000); /* 10^19 */
    const uint64_t high = (uint64_t)(sum / base), low = (uint64_t)(sum % base);
    if (high) put_format(out, "\"%s\": %" PRIu64 "%019" PRIu64 ", ", name, high, low);
    else put_format(out, "\"%s\": %" PRIu64 ", ", name, low);
}

/* The sums that the report has beside the counters themselves. */
static void put_sums(json *out, const pw_counters *counters)
{
    const uint64_t sums[][2] = {
        {counters->translation_faults_source, counters->translation_faults_destination},
        {counters->permission_faults_source, counters->permission_faults_destination},
        {counters->eager_messages, counters->rdma_messages},
        {counters->eager_bytes, counters->rdma_bytes},
    };
    const char *const names[] = {"translation_faults", "permission_faults", "mpi_sends",
                                 "mpi_bytes"};
    const size_t num_nacks = sizeof counters->nacks / sizeof *counters->nacks;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_sum(out, names[i], sums[i], 2);
    put_sum(out, "nacks", counters->nacks, num_nacks);
    put_format(out, "\"nacks_by_code\": ");
    put_list(out, counters->nacks, num_nacks);
}

static void put_counters(json *out, const pw_counters *counters)
{
    for (uint32_t i = 0; i < pw_fields_counters.num_fields; i++) {
        const pw_field *field = &pw_fields_counters.fields[i];
        if (field->offset == offsetof(pw_counters, nacks)) continue; /* below, under another name */
        put_name(out, field->name, strlen(field->name));
        if (field->count > 1)
            put_list(out, (const uint64_t *)(const void *)((const char *)counters + field->offset),
                     field->count);
        else put_field(out, field, counters);
        put(out, ", ", 2);
    }
    put_sums(out, counters);
}

static void put_sites(json *out, const pw_impairment_site *sites)
{
    const char *separator = "";
    put_format(out, ", \"impairments\": {");
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++) {
        if (!sites[i].num) continue;
        put_format(out, "%s\"%s\": {\"eligible\": %" PRIu64 ", \"injected\": %" PRIu64, separator,
                   pw_impairment_names[i], sites[i].eligible, sites[i].injected);
        if (i == PW_IMPAIRMENT_DUPLICATION || i == PW_IMPAIRMENT_DELAY) /* they keep blocks */
            put_format(out, ", \"late_after_end\": %" PRIu64, sites[i].late_after_end);
        put(out, "}", 1);
        separator = ", ";
    }
    put(out, "}", 1);
}

static void put_calls(json *out, const pw_call_counts *calls)
{
    put_format(out, ", \"mpi_calls\": {");
    uint32_t num_made = 0;
    for (uint32_t i = 0; i < calls->num_calls; i++) {
        if (!calls->call[i].calls) continue;
        if (num_made++) put(out, ", ", 2);
        put_name(out, calls->call[i].name, PW_CALL_NAME_BYTES);
        const char *separator = "{";
        for (uint32_t j = 0; j < pw_fields_call_count.num_fields; j++) {
            const pw_field *field = &pw_fields_call_count.fields[j];
            if (field->kind == PW_FIELD_TEXT) continue;
            put(out, separator, strlen(separator));
            put_name(out, field->name, strlen(field->name));
            put_field(out, field, &calls->call[i]);
            separator = ", ";
        }
        put(out, "}", 1);
    }
    put(out, "}", 1);
}

/* NULL: nothing was counted. */
static void put_histogram(json *out, const pw_time_histogram *histogram)
{
    pw_time_histogram none;
    pw_time_histogram_init(&none);
    if (!histogram) histogram = &none;
    put_format(out, "{\"bin_ns\": %" PRId64 ", \"bins\": ", histogram->bin_ns);
    put_list(out, histogram->bins, PW_HISTOGRAM_BINS);
    put(out, "}", 1);
}

/* Pages, peers and windows as names: they say which, and are no figures. Peers in their order; NULL
 * where there is no memory to sort them. */
static pw_peer **sorted(const pw_peers *peers)
{
    pw_peer **items = malloc((peers->num_items + 1) * sizeof *items);
    if (items) pw_peers_list(peers, items);
    return items;
}

static void put_peers(json *out, const pw_peers *peers)
{
    pw_peer **items = sorted(peers);
    put_format(out, ", \"peers\": {");
    for (uint32_t i = 0; items && i < peers->num_items; i++) {
        const pw_peer_traffic *traffic = (const pw_peer_traffic *)(const void *)items[i];
        put_format(out, "%s\"%" PRIu32 "\": {\"messages\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                   i ? ", " : "", traffic->peer.peer, traffic->messages, traffic->bytes);
    }
    put(out, "}", 1);
    free(items);
}

static void put_demands(json *out, const pw_peers *demands)
{
    pw_peer **items = sorted(demands);
    put_format(out, ", \"demands\": {");
    for (uint32_t i = 0; items && i < demands->num_items; i++) {
        const pw_demand *demand = (const pw_demand *)(const void *)items[i];
        const char *separator = "";
        put_format(out, "%s\"%" PRIu32 "\": {\"blocks\": %" PRIu64 ", \"bytes\": %" PRIu64,
                   i ? ", " : "", demand->peer.peer, demand->num_blocks, demand->num_bytes);
        put_format(out, ", \"span_windows\": %" PRIu64 ", \"most_bytes\": {",
                   UINT64_C(1) << demand->shift);
        for (uint32_t j = 0; j < PW_DEMAND_SPANS; j++) {
            if (!demand->most_bytes[j]) continue;
            put_format(out, "%s\"%" PRIu32 "\": %" PRIu32, separator, j, demand->most_bytes[j]);
            separator = ", ";
        }
        put(out, "}}", 2);
    }
    put(out, "}", 1);
    free(items);
}

static void put_tallies(json *out, const pw_tallies *tallies)
{
    put_format(out, ", \"message_sizes\": ");
    put_list(out, tallies->message_sizes.bins, PW_LOG_BINS);
    put_format(out, ", \"fault_waits_ns\": ");
    put_list(out, tallies->fault_waits.bins, PW_LOG_BINS);
    put_format(out, ", \"fault_times\": ");
    put_histogram(out, tallies->fault_times);
    const pw_page_heat *heat = &tallies->fault_pages;
    put_format(out, ", \"fault_pages\": {\"group_pages\": %" PRIu64 ", \"faults\": {",
               UINT64_C(1) << heat->shift);
    for (uint32_t i = 0; i < heat->num_groups; i++)
        put_format(out, "%s\"%#" PRIx64 "\": %" PRIu64, i ? ", " : "",
                   heat->groups[i].group << heat->shift << PW_PAGE_SHIFT, heat->groups[i].count);
    put(out, "}}", 2);
    put_peers(out, &tallies->peers);
}

static void put_times(json *out, const pw_report_input *input)
{
    const pw_clock *clock = input->clock;
    put_format(out, ", \"interrupt_times\": ");
    put_histogram(out, input->interrupt_times);
    put_format(out, ", \"virtual_time_ns\": %" PRId64 ", \"compute_ns\": %" PRId64, clock->now_ns,
               clock->compute_ns);
    put_format(out, ", \"mpi_ns\": %" PRId64 ", \"sleep_ns\": %" PRId64, clock->mpi_ns,
               clock->sleep_ns);
    put_format(out, ", \"touch_ns\": %" PRId64 ", \"pin_ns\": %" PRId64 ", \"copy_ns\": %" PRId64,
               input->node->touch_ns, input->node->pin_ns, input->node->copy_ns);
    if (clock->compute == PW_COMPUTE_REPLAY)
        put_format(out, ", \"replay_missing\": %" PRIu64 ", \"replay_unused\": %" PRIu64,
                   clock->replay_missing, clock->num_replay - clock->next_replay);
    if (input->node->received_hash) /* a text, which nobody adds up */
        put_format(out, ", \"received_hash\": \"%016" PRIx64 "\"", input->node->received_hash);
    if (input->node->without_marks) put_format(out, ", \"without_marks\": 1");
}

static void put_page_sources(json *out, uint32_t sources)
{
    static const char *const names[] = {"mincore", "pagemap", "PROCMAP_QUERY", "PAGEMAP_SCAN",
                                        "events"};
    const char *separator = "";
    put_format(out, ", \"page_sources\": [");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(sources & 1u << i)) continue;
        put_format(out, "%s\"%s\"", separator, names[i]);
        separator = ", ";
    }
    put(out, "]", 1);
}

/* Not by %f, which follows the program's locale. */
static void put_wall(json *out, int64_t duration_ns)
{
    const uint64_t wall_ns = duration_ns > 0 ? (uint64_t)duration_ns : 0;
    put_format(out, ", \"wall_time_s\": %" PRIu64 ".%09" PRIu64, wall_ns / 1000000000,
               wall_ns % 1000000000);
}

/* Peaks, which are no sums. */
static bool is_split(const pw_field *field)
{
    return field->count == 1 && field->offset != offsetof(pw_counters, vmh_pinned_peak) &&
           field->offset != offsetof(pw_counters, odp_table_peak);
}

/* Behind others: all, or those that are not zero, as most of a region's are. */
static void put_fields(json *out, const pw_field_table *table, const void *owner, bool has_zeros)
{
    for (uint32_t i = 0; i < table->num_fields; i++) {
        const pw_field *field = &table->fields[i];
        uint64_t value;
        if (table == &pw_fields_counters && !is_split(field)) continue;
        memcpy(&value, (const char *)owner + field->offset, sizeof value);
        if (!value && !has_zeros) continue;
        put(out, ", ", 2);
        put_name(out, field->name, strlen(field->name));
        put_field(out, field, owner);
    }
}

static void put_region(json *out, const char *path, uint64_t entries, const pw_region_sums *sums)
{
    put_format(out, "{\"name\": ");
    put_text(out, path, PW_REGION_PATH_BYTES);
    put_format(out, ", \"entries\": %" PRIu64 ", \"virtual_time_ns\": %" PRId64, entries,
               sums->virtual_time_ns);
    put_format(out,
               ", \"compute_ns\": %" PRId64 ", \"mpi_ns\": %" PRId64 ", \"sleep_ns\": %" PRId64,
               sums->compute_ns, sums->mpi_ns, sums->sleep_ns);
    put_format(out, ", \"touch_ns\": %" PRId64 ", \"pin_ns\": %" PRId64 ", \"copy_ns\": %" PRId64,
               sums->touch_ns, sums->pin_ns, sums->copy_ns);
    put_wall(out, sums->wall_ns);
    put_fields(out, &pw_fields_counters, &sums->counters, false);
    put_fields(out, &pw_fields_strategy_counters, &sums->strategy, false);
    put(out, ", ", 2);
    put_sums(out, &sums->counters);
    put(out, "}", 1);
}

/* node: NULL: none marked any. */
static void put_regions(json *out, const pw_node *node)
{
    const pw_region_faults faults = node ? pw_node_region_faults(node) : (pw_region_faults){0};
    const uint32_t num_regions = node ? pw_node_num_regions(node) : 0;
    put_format(out, ", \"region_leaves_unmatched\": %" PRIu64, faults.unmatched);
    put_format(out, ", \"region_marks_of_threads\": %" PRIu64, faults.of_other_threads);
    for (uint32_t i = 0; i < num_regions; i++) {
        uint64_t entries;
        pw_region_sums sums;
        const char *path = pw_node_region_read(node, i, &entries, &sums);
        put_format(out, i ? ", " : ", \"regions\": [");
        put_region(out, path, entries, &sums);
    }
    if (num_regions) put(out, "]", 1);
}

static void put_host(json *out, const pw_report_input *input)
{
    const pw_node_counters *node = input->node;
    put_format(out,
               ", \"bursts_short\": %" PRIu64 ", \"bursts_in_place\": %" PRIu64
               ", \"bursts_copied\": %" PRIu64 ", \"bursts_by_message\": %" PRIu64,
               node->bursts_short, node->bursts_in_place, node->bursts_copied,
               node->bursts_by_message);
    put_format(out, ", \"yields\": %" PRIu64 ", \"sleeps\": %" PRIu64, node->yields, node->sleeps);
    put_wall(out, input->wall_ns);
    put_format(out, ", \"peak_rss_bytes\": %" PRIu64, input->peak_rss_bytes);
    put_page_sources(out, input->page_sources);
    put(out, "}\n", 2);
}

size_t pw_report_write(const pw_report_input *input, char *buffer, size_t capacity)
{
    json out = {.buffer = buffer, .capacity = capacity};
    put(&out, "{", 1);
    put_counters(&out, input->counters);
    put_sites(&out, input->sites);
    put_calls(&out, input->calls);
    put_tallies(&out, input->tallies);
    if (input->demands) put_demands(&out, input->demands);
    put_times(&out, input);
    put_fields(&out, &pw_fields_strategy_counters, &input->node->strategy, true);
    put_format(&out, ", \"pinned_peak_bytes\": %" PRIu64 ", \"pinned_mean_bytes\": %" PRIu64,
               input->node->pinned_peak_bytes, input->node->pinned_mean_bytes);
    put_format(&out, ", \"resident_peak_bytes\": %" PRIu64 ", \"resident_mean_bytes\": %" PRIu64,
               input->node->resident_peak_bytes, input->node->resident_mean_bytes);
    put_regions(&out, input->of);
    put_host(&out, input);
    return out.length;
}

int pw_report_leave(const pw_report_input *input, const char *directory, uint32_t rank)
{
    char path[PW_OUTPUT_PATH_BYTES];
    if (pw_output_path(path, "%s/%" PRIu32 ".report", directory, rank)) return PW_ERR_INVALID;
    size_t num_bytes = pw_report_write(input, NULL, 0);
    char *text = malloc(num_bytes + 1);
    if (!text) return PW_ERR_NOMEM;
    pw_report_write(input, text, num_bytes + 1);
    int code = pw_output_write(path, text, num_bytes);
    int failed = errno;
    free(text);
    errno = failed;
    return code;
}

uint64_t pw_report_peak_rss_bytes(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* What the report is made of, in one place to point to. */
typedef struct {
    pw_counters counters;
    pw_impairment_site sites[PW_IMPAIRMENT_SITES];
    pw_time_histogram interrupt_times;
    pw_node_counters node;
} facts;

static pw_report_input gather(pw_node *node, facts *out)
{
    pw_ni *ni = pw_node_ni(node);
    pw_ni_read_counters(ni, &out->counters);
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++)
        (void)pw_ni_read_impairment(ni, site, &out->sites[site]); /* every site is one */
    pw_ni_read_interrupt_times(ni, &out->interrupt_times);
    pw_node_read_counters(node, &out->node);
    pw_node_regions_settle(node);
    return (pw_report_input){.counters = &out->counters,
                             .sites = out->sites,
                             .interrupt_times = &out->interrupt_times,
                             .tallies = pw_ni_tallies(ni),
                             .demands = pw_node_has_no_bytes(node) ? NULL : pw_ni_demands(ni),
                             .clock = pw_node_clock(node),
                             .calls = pw_node_calls(node),
                             .node = &out->node,
                             .wall_ns = pw_clock_wall_ns() - out->node.started_wall_ns,
                             .peak_rss_bytes = pw_report_peak_rss_bytes(),
                             .of = node,
                             .page_sources = pw_memory_sources(pw_node_memory(node))};
}

size_t pw_node_report_write(pw_node *node, char *buffer, size_t capacity)
{
    facts found;
    pw_report_input input = gather(node, &found);
    return pw_report_write(&input, buffer, capacity);
}

int pw_node_report_leave(pw_node *node, const char *directory)
{
    facts found;
    pw_report_input input = gather(node, &found);
    return pw_report_leave(&input, directory, pw_node_number(node));
}
