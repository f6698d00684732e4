/* The report of a node: report.h with everything that the node counted. */
#ifndef PW_NODE_NODE_REPORT_H
#define PW_NODE_NODE_REPORT_H
#include "transport/node/node.h"

/* cdef begin */
/* As pw_report_write and pw_report_leave. The caller has locked the node. */
size_t pw_node_report_write(pw_node *node, char *buffer, size_t capacity);
int pw_node_report_leave(pw_node *node, const char *directory);
/* cdef end */
#endif
