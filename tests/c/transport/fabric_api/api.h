/* Processes that use the provider by libfabric's own interface, without an MPI: a case forks its
 * processes, which exchange names over pipes and never block without making progress. A check that
 * fails ends its process, a hang is ended by an alarm, and the program's exit code tells. */
#ifndef PW_TESTS_FABRIC_API_H
#define PW_TESTS_FABRIC_API_H
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_PROCESSES_MAX 3
#define API_NAME_BYTES 64
#define API_IOV_MAX 8

/* An endpoint with queues and counters of its own. */
typedef struct {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *tx, *rx;
    struct fid_cntr *sent, *received, *read, *written;
    fi_addr_t peers[API_PROCESSES_MAX];
} api_endpoint;

typedef struct {
    uint32_t rank, num_processes;
    int from[API_PROCESSES_MAX], to[API_PROCESSES_MAX]; /* pipes */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *idle; /* bound to nothing: reading it makes progress */
    api_endpoint main;   /* of api_begin; peers: of all processes */
} api;

/* How an endpoint is made; zero: the usual. */
typedef struct {
    enum fi_cq_format format;
    uint64_t bind_flags; /* FI_SELECTIVE_COMPLETION */
    enum fi_av_type av_type;
    bool has_no_receive_queue; /* a counter alone */
} api_options;

#define API_FAIL(...)                                                                   \
    do {                                                                                \
        fprintf(stderr, "%s:%d: process %s: ", __FILE__, __LINE__, getenv("PMI_RANK")); \
        fprintf(stderr, __VA_ARGS__);                                                   \
        fputc('\n', stderr);                                                            \
        _Exit(1);                                                                       \
    } while (0)
#define CHECK(condition)                              \
    do {                                              \
        if (!(condition)) API_FAIL("%s", #condition); \
    } while (0)
/* Both are integers. */
#define SAME(found, wanted)                                                               \
    do {                                                                                  \
        const long long found_ = (long long)(found), wanted_ = (long long)(wanted);       \
        if (found_ != wanted_) API_FAIL("%s is %lld, not %lld", #found, found_, wanted_); \
    } while (0)

struct fi_info *api_hints(void);
/* Fabric, domain and the endpoint `main`, names exchanged. */
void api_begin(api *self);
void api_end(api *self);
void api_open_endpoint(api *self, const api_options *options, api_endpoint *out);
void api_close_endpoint(api_endpoint *endpoint);
void api_name(const api_endpoint *endpoint, void *name);
fi_addr_t api_insert(const api_endpoint *endpoint, const void *name);

/* Everybody's, in the order of ranks; progress goes on meanwhile. At most 4096 bytes each. */
void api_gather(api *self, const void *mine, size_t num_bytes, void *all);
void api_barrier(api *self);
/* Enough turns for what peers have sent to be here. */
void api_progress(const api *self);

/* The next entry of the queue, which must be a completion or an error. */
struct fi_cq_tagged_entry api_wait(struct fid_cq *cq, fi_addr_t *source);
struct fi_cq_err_entry api_wait_error(struct fid_cq *cq);
/* Nothing is in the queue, nor comes soon. */
void api_check_silent(struct fid_cq *cq);

double api_wall_s(void);
void api_fill(void *data, size_t num_bytes, uint32_t seed);
bool api_is_filled(const void *data, size_t num_bytes, uint32_t seed);

typedef struct api_case {
    const char *name;
    uint32_t num_processes;
    bool is_bare; /* it begins and ends by itself */
    void (*run)(api *self);
    struct api_case *next;
} api_case;
void api_register(api_case *registered);

#define API_CASE_OF(case_name, num_processes, is_bare)                                       \
    static void run_##case_name(api *self);                                                  \
    static api_case case_##case_name = {#case_name, num_processes, is_bare, run_##case_name, \
                                        NULL};                                               \
    __attribute__((constructor)) static void register_##case_name(void)                      \
    {                                                                                        \
        api_register(&case_##case_name);                                                     \
    }                                                                                        \
    static void run_##case_name(api *self)
#define API_CASE(name, num_processes) API_CASE_OF(name, num_processes, false)
#define API_BARE_CASE(name, num_processes) API_CASE_OF(name, num_processes, true)
#endif
