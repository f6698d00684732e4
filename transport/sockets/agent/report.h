/* What a run's sockets did, told at its end. */
#ifndef PW_SOCKETS_AGENT_REPORT_H
#define PW_SOCKETS_AGENT_REPORT_H
#include "transport/sockets/node_streams.h"

typedef struct {
    pagewire_node *node;
    pw_node_streams *streams;
    int exit_code;
} pw_report_row;

/* A line a node on standard error. */
void pw_report_print(const pw_report_row *rows, uint32_t num_nodes);
/* The same as JSON. facts: members of the document, as JSON, of what was asked for. -1: see errno;
 * there is no file then. */
int pw_report_write(const pw_report_row *rows, uint32_t num_nodes, const char *facts,
                    const char *path);
#endif
