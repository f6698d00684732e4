/* Address vectors, and the names that endpoints go by: what MPI hands from process to process. */
#ifndef PW_FABRIC_AV_H
#define PW_FABRIC_AV_H
#include "transport/fabric/objects.h"

int pw_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out,
                  void *context);
/* The address of an endpoint, FI_ADDR_NOTAVAIL: it was not inserted. */
fi_addr_t pw_fi_av_find(const pw_fi_av *av, uint32_t node, uint16_t endpoint);
/* NULL: no such address. */
static inline const pw_fi_peer *pw_fi_av_at(const pw_fi_av *av, fi_addr_t address)
{
    return address < av->num_peers && av->peers[address].is_there ? &av->peers[address] : NULL;
}
#endif
