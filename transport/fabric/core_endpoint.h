/* One endpoint of a core provider of libfabric ("shm", "tcp") for messages without connections,
 * with its fabric, domain, completion queue and address vector: opening it, its name, its peers,
 * closing it. What goes through it is core_messages.h's. One thread at a time. */
#ifndef PW_FABRIC_CORE_ENDPOINT_H
#define PW_FABRIC_CORE_ENDPOINT_H
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "transport/fabric/library.h"

typedef struct {
    const pw_fabric_library *library;
    const char *provider;
    size_t inject_bytes; /* at most so many are copied by a send */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *completions; /* format: data */
    struct fid_av *peers;
    struct fid_ep *endpoint;
} pw_core_endpoint;

/* library and provider must live as long. interface: a network interface's name or address, NULL:
 * the first one that is not the loopback, which is taken when there is no other. PW_ERR_HOST and a
 * sentence. */
int pw_core_endpoint_open(const pw_fabric_library *library, const char *provider,
                          const char *interface, pw_core_endpoint *out, pw_sentence *reason);
/* What a peer must know of it; *num_bytes: room, then the name's. PW_ERR_HOST and a sentence, also
 * when it does not fit. */
int pw_core_endpoint_name(const pw_core_endpoint *core, void *out, size_t *num_bytes,
                          pw_sentence *reason);
int pw_core_endpoint_insert(const pw_core_endpoint *core, const void *name, fi_addr_t *out,
                            pw_sentence *reason);
/* A function of libfabric's, `what`, gave this negative error: PW_ERR_HOST and a sentence. */
int pw_core_endpoint_refuse(const pw_core_endpoint *core, pw_sentence *reason, const char *what,
                            int error);
/* Zeroed: nothing. */
void pw_core_endpoint_close(pw_core_endpoint *core);
#endif
