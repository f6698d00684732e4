#include "transport/facade/mpi_library.h"

#include <dlfcn.h>
#include <stdio.h>

/* Handles in registers: an int's caller need not extend it, and its callee reads the low half. On
 * other machines (RISC-V, POWER) the caller extends the sign, which a uint64_t does not. */
#if defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    (defined(__x86_64__) || defined(__aarch64__))
#define HANDLES_FIT 1
#else
#define HANDLES_FIT 0
#endif

typedef struct {
    const char *name;
    size_t offset; /* of the member */
} entry_point;

static const entry_point entry_points[] = {
    {"MPI_Isend", offsetof(pw_mpi_library, isend)},
    {"MPI_Recv_init", offsetof(pw_mpi_library, recv_init)},
    {"MPI_Start", offsetof(pw_mpi_library, start)},
    {"MPI_Test", offsetof(pw_mpi_library, test)},
    {"MPI_Wait", offsetof(pw_mpi_library, wait)},
    {"MPI_Cancel", offsetof(pw_mpi_library, cancel)},
    {"MPI_Request_free", offsetof(pw_mpi_library, request_free)},
    {"MPI_Iprobe", offsetof(pw_mpi_library, iprobe)},
    {"MPI_Get_count", offsetof(pw_mpi_library, get_count)},
    {"MPI_Status_set_elements_x", offsetof(pw_mpi_library, status_set_elements_x)},
    {"MPI_Status_set_cancelled", offsetof(pw_mpi_library, status_set_cancelled)},
    {"MPI_Reduce_local", offsetof(pw_mpi_library, reduce_local)},
    {"MPI_Error_string", offsetof(pw_mpi_library, error_string)},
};

static int find_all(void *module, const char *module_path, pw_mpi_library *out)
{
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        void *found = dlsym(module, entry_points[i].name);
        if (!found) {
            snprintf(out->reason, sizeof out->reason,
                     "the MPI library behind %.120s has no %s: take one of MPI 3.0 or newer",
                     module_path, entry_points[i].name);
            return PW_ERR_INVALID;
        }
        memcpy((char *)out + entry_points[i].offset, &found, sizeof found);
    }
    return PW_OK;
}

int pw_mpi_library_load(const char *module_path, const pw_mpi_facts *facts, pw_mpi_library *out)
{
    memset(out, 0, sizeof *out);
    if (!HANDLES_FIT) {
        snprintf(out->reason, sizeof out->reason,
                 "MPI is called from C on x86-64 and little-endian arm64 only; run there");
        return PW_ERR_INVALID;
    }
    const size_t status_end = sizeof(pw_mpi_status) - sizeof(int32_t);
    if (facts->source_offset > status_end || facts->tag_offset > status_end) {
        snprintf(out->reason, sizeof out->reason,
                 "an MPI status has source and tag at bytes %u and %u, allowed is at most %zu: "
                 "this MPI library is not supported",
                 facts->source_offset, facts->tag_offset, status_end);
        return PW_ERR_INVALID;
    }
    void *module = dlopen(module_path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!module) {
        snprintf(out->reason, sizeof out->reason,
                 "%.180s is not loaded: import mpi4py.MPI before the node is made", module_path);
        return PW_ERR_INVALID;
    }
    int code = find_all(module, module_path, out);
    dlclose(module); /* the interpreter holds it */
    if (code) return code;
    out->byte = facts->byte;
    out->any_source = facts->any_source;
    out->any_tag = facts->any_tag;
    out->source_offset = facts->source_offset;
    out->tag_offset = facts->tag_offset;
    return PW_OK;
}
