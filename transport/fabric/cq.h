/* Completion queues: entries that the application reads, in virtual time's order. A queue grows as
 * it must, so that nothing is lost. */
#ifndef PW_FABRIC_CQ_H
#define PW_FABRIC_CQ_H
#include "transport/fabric/objects.h"

int pw_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                  void *context);
/* An entry of an operation that is over. Without memory for it the run ends. */
void pw_fi_cq_add_operation(pw_fi_cq *cq, const pw_fi_operation *operation);
void pw_fi_cq_add(pw_fi_cq *cq, const struct fi_cq_err_entry *entry, fi_addr_t source);
#endif
