/* All that settings decide of a node, and how it comes about: from texts "section.name=value",
 * whose names, units and limits are those of setting_rows.h. Plain data, stateless. */
#ifndef PW_NODE_SETTINGS_CONFIG_H
#define PW_NODE_SETTINGS_CONFIG_H
#include "native/costs.h"
#include "native/impairments.h"
#include "native/settings.h"
#include "node/node.h"
#include "node/sentence.h"
#include "node/settings/cost_table.h"

/* cdef begin */
#define PW_CONFIG_NAME_BYTES 256
#define PW_CONFIG_PATH_BYTES 4096
#define PW_CONFIG_REASON_BYTES 1024
#define PW_CONFIG_FILE_MAX_BYTES 4194304

#define PW_TRANSPORT_FACADE 0
#define PW_TRANSPORT_FABRIC 1
#define PW_WTIME_VIRTUAL 0
#define PW_WTIME_WALL 1
#define PW_CLOCKS_HOST 0
#define PW_CLOCKS_VIRTUAL 1
#define PW_CARRIER_AUTO 0
#define PW_CARRIER_MPI 1
#define PW_CARRIER_SHM 2
#define PW_CARRIER_TCP 3
#define PW_HUGE_PAGES_NEVER 0
#define PW_HUGE_PAGES_HOST 1

/* The settings of `run` that the engine does not take, by their names there. */
typedef struct {
    int64_t num_nodes;                     /* of the node file; 0: none was read */
    char memory[PW_CONFIG_NAME_BYTES];     /* the memory strategy */
    char policy[PW_CONFIG_NAME_BYTES];     /* for messages: the engine's is in pw_settings */
    char err_by[PW_CONFIG_NAME_BYTES];     /* the same */
    char scheduling[PW_CONFIG_NAME_BYTES]; /* `size`: the firmware's own */
    char platform[PW_CONFIG_PATH_BYTES];
    int64_t transport; /* PW_TRANSPORT_* */
    int64_t compute;   /* PW_COMPUTE_* */
    double compute_scale;
    char compute_record[PW_CONFIG_PATH_BYTES]; /* empty: none; else the rank's is FILE.RANK */
    char compute_replay[PW_CONFIG_PATH_BYTES]; /* the same */
    int64_t wtime;                             /* PW_WTIME_* */
    int64_t clocks;                            /* PW_CLOCKS_*; the program's other clocks, sleeps */
    int64_t wire;                              /* PW_CARRIER_* */
    char wire_interface[PW_CONFIG_NAME_BYTES]; /* empty: the first */
    char topology[PW_CONFIG_PATH_BYTES];       /* see network/topology.h */
    char placement[PW_CONFIG_PATH_BYTES];
    int64_t ranks_per_node;            /* of one place, see pw_ni_share_node */
    char failed[PW_CONFIG_PATH_BYTES]; /* links, see pw_topology_fail */
    char lossy[PW_CONFIG_PATH_BYTES];
    int64_t huge_pages;                /* PW_HUGE_PAGES_* */
    int64_t watchdog_ns;               /* -1: none */
    int64_t strict, quiet;             /* 0 or 1 */
    char json[PW_CONFIG_PATH_BYTES];   /* empty: none */
    char trace[PW_CONFIG_PATH_BYTES];  /* the same */
    char record[PW_CONFIG_PATH_BYTES]; /* the same; each rank's is FILE.RANK */
    char html[PW_CONFIG_PATH_BYTES];
} pw_node_run;

typedef struct {
    pw_settings settings;
    pw_costs costs;
    pw_cost_tables tables;
    pw_impairment_site impairments[PW_IMPAIRMENT_SITES];
    pw_node_run run;
} pw_node_config;

/* Every setting at its default. */
void pw_node_config_default(pw_node_config *out);
/* One text. A node alone refuses settings of a run by name, and costs come with run.platform; of a
 * run it takes those too, any class, and a platform by any name, whose costs are texts of their
 * own. PW_ERR_INVALID with the reason, which says what is allowed. */
int pw_node_config_take(pw_node_config *config, const char *text, bool of_run, pw_sentence *reason);
/* Values that are fine alone and not together: PW_ERR_INVALID with the reason. */
int pw_node_settings_check(const pw_node_config *config, pw_sentence *reason);
/* The node alone of a list of texts, which NULL ends, or of NULL: the defaults, then each text; of
 * one name the last counts, and costs of their own go before those of the platform. Checked as a
 * whole. PW_ERR_INVALID with the reason, *out is then of no use. */
int pw_node_config_of_texts(const char *const *texts, pw_node_config *out, pw_sentence *reason);

/* The node of a run: what the launcher resolved for a process without Python stands in the node
 * file, which run/settings/node_file.py writes: lines `format=2`, `nodes=NUMBER`, then a setting a
 * line (`name=value`, in which \n and \\ stand for a line's end and a backslash; behind `@NUMBER `
 * it is that node's alone), every cost and table among them, then `end`. PW_ERR_HOST (errno),
 * PW_ERR_NOMEM, PW_ERR_INVALID: the reason names file, line and what is allowed. */
int pw_node_config_read(const char *path, uint32_t node, pw_node_config *out, pw_sentence *reason);
/* PW_ERR_INVALID with the reason when the settings name a class in Python, which only a host with
 * Python can ask. */
int pw_node_config_check_native(const pw_node_config *config, pw_sentence *reason);
/* What a host of a node adds to its settings; all but the domain may be 0. */
typedef struct {
    const pw_strategy_ops *strategy; /* the host's own; NULL: that of run.memory */
    void *strategy_self;             /* its object; NULL: its `create` makes it */
    const int64_t *replay_ns;        /* durations of run.compute = replay; copied */
    uint64_t num_replay;
    pw_node_host host;
    uint32_t num_started; /* nodes that the run starts with; 0: as many as the wire has */
    uint16_t pdid;
    uint64_t transfer_max_bytes; /* longer reads go in pieces; above a block. 0: the machine's */
    uint8_t is_process;          /* run.huge_pages is about the process of this node */
    /* 1: nothing has bytes, see pw_ni_set_without_bytes: memory is the model's, of no process. With
     * memory_backend.backend = model its settings count as they stand; else every page is absent
     * until pw_memory_set or the node itself brings it in. No service can be opened. */
    uint8_t has_no_bytes;
    /* The network that the nodes of this process stand in, and its links, which they share: see
     * pw_ni_set_network. NULL: the settings' topology, and a link for each pair. */
    const pw_topology *topology;
    pw_links *links;
    pw_forwarding *forwarding;
    /* NULL, or another rank of the same node, in this process: see pw_ni_share_node. */
    pw_node *neighbour;
    /* NULL, or another node of this process: what is the same is shared with it. It may be
     * destroyed before; one thread for both. */
    const pw_node *like;
} pw_node_opening;

/* The network of the settings, for so many ranks. PW_ERR_* with the reason. */
int pw_node_config_topology(const pw_node_config *config, uint32_t num_ranks, pw_topology **out,
                            pw_sentence *reason);
/* The same of ranks that are processes of their own: they share neither links nor nodes. NULL: the
 * machine's own network as it comes, which the NI makes. */
int pw_node_config_topology_apart(const pw_node_config *config, uint32_t num_ranks,
                                  pw_topology **out, pw_sentence *reason);
/* Every host makes its node here. The node takes the wire, and closes it at its end; what both
 * point to is copied, but for the strategy's; impairments are planned. A negative code leaves
 * nothing, and the wire to the caller; the reason is a sentence. */
int pw_node_open(const pw_node_config *config, const pw_node_opening *opening, pw_wire *wire,
                 pw_node **out, pw_sentence *reason);
/* cdef end */
#endif
