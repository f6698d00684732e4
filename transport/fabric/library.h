/* The libfabric that this process has loaded already: an MPI brings its own, so the provider links
 * none and calls the one that called it. Structs are those of the headers that we were built with;
 * newer libraries only append to them, so a fi_info is allocated by the library alone. Read-only
 * once found; any thread may call the functions. */
#ifndef PW_FABRIC_LIBRARY_H
#define PW_FABRIC_LIBRARY_H
#include <rdma/fabric.h>

#include "node/sentence.h"

/* What we ask of it: the interface of Debian's 1.17. */
#define PW_FABRIC_VERSION FI_VERSION(1, 17)

typedef struct {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /* NULL: a new, empty one */
    int (*fabric)(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error_number);
    uint32_t (*version)(void);
    void *handle; /* of dlopen: keeps the library loaded */
} pw_fabric_library;

/* The one whose code or data the address lies in, as that of the caller of fi_prov_ini. PW_ERR_HOST
 * and a sentence: it is not libfabric, too old, or lacks a function. */
int pw_fabric_library_find(const void *address_within, pw_fabric_library *out, pw_sentence *reason);
#endif
