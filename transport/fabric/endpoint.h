/* Endpoints: several of a process share its node, and are told apart by a number in each message.
 */
#ifndef PW_FABRIC_ENDPOINT_H
#define PW_FABRIC_ENDPOINT_H
#include "transport/fabric/objects.h"

int pw_fi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out,
                        void *context);
#endif
