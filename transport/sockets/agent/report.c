#include "transport/sockets/agent/report.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

typedef unsigned long long printed;

typedef struct {
    pw_streams_counters counted;
    uint64_t num_faults;
    int64_t virtual_ns;
} row_facts;

static row_facts read_row(const pw_report_row *row)
{
    row_facts read = {.virtual_ns = pagewire_clock_ns(row->node)};
    pw_streams_read_counters(pw_node_streams_of(row->streams), &read.counted);
    pagewire_read_counter(row->node, "translation_faults_destination", &read.num_faults);
    return read;
}

void pw_report_print(const pw_report_row *rows, uint32_t num_nodes)
{
    for (uint32_t i = 0; i < num_nodes; i++) {
        const row_facts read = read_row(&rows[i]);
        const pw_streams_counters *counted = &read.counted;
        fprintf(stderr,
                "sockets, node %u: %llu connections made, %llu taken, %llu refused, %llu reset; "
                "%llu RDMA writes, %llu messages; %llu bytes out, %llu in; %llu page faults of "
                "arriving blocks; %lld ns virtual\n",
                i, (printed)counted->connections_made, (printed)counted->connections_taken,
                (printed)counted->refused, (printed)counted->resets, (printed)counted->writes,
                (printed)counted->messages, (printed)counted->bytes_out, (printed)counted->bytes_in,
                (printed)read.num_faults, (long long)read.virtual_ns);
    }
}

static void write_row(FILE *file, uint32_t number, const pw_report_row *row)
{
    const row_facts read = read_row(row);
    const pw_streams_counters *counted = &read.counted;
    fprintf(file,
            "%s\n    {\"node\": %u, \"exit_code\": %d,\n"
            "     \"connections\": {\"made\": %llu, \"taken\": %llu, \"refused\": %llu, "
            "\"reset\": %llu},\n"
            "     \"writes\": %llu, \"messages\": %llu, \"bytes_out\": %llu, \"bytes_in\": %llu,\n"
            "     \"page_faults\": %llu, \"virtual_ns\": %lld}",
            number ? "," : "", number, row->exit_code, (printed)counted->connections_made,
            (printed)counted->connections_taken, (printed)counted->refused,
            (printed)counted->resets, (printed)counted->writes, (printed)counted->messages,
            (printed)counted->bytes_out, (printed)counted->bytes_in, (printed)read.num_faults,
            (long long)read.virtual_ns);
}

int pw_report_write(const pw_report_row *rows, uint32_t num_nodes, const char *facts,
                    const char *path)
{
    char part[4096];
    int length = snprintf(part, sizeof part, "%s.part", path);
    if (length < 0 || (size_t)length >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *file = fopen(part, "w");
    if (!file) return -1;
    fprintf(file, "{\n  \"$schema\": \"urn:pagewire:schema:sockets:1\",\n  %s,\n  \"nodes\": [",
            facts);
    for (uint32_t i = 0; i < num_nodes; i++) write_row(file, i, &rows[i]);
    fprintf(file, "\n  ]\n}\n");
    bool is_whole = !ferror(file);
    is_whole = !fclose(file) && is_whole;
    if (is_whole && !rename(part, path)) return 0;
    int saved = errno;
    unlink(part);
    errno = saved;
    return -1;
}
