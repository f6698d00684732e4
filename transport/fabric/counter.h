/* Counters of completed operations. */
#ifndef PW_FABRIC_COUNTER_H
#define PW_FABRIC_COUNTER_H
#include "transport/fabric/objects.h"

int pw_fi_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out,
                       void *context);
#endif
