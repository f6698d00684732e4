/* Domains: where everything else is opened. */
#ifndef PW_FABRIC_DOMAIN_H
#define PW_FABRIC_DOMAIN_H
#include "transport/fabric/objects.h"

int pw_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out,
                      void *context);
#endif
