/* What the launcher resolved for a process without Python: the node file, a flat text of `name =
 * value` lines that transport/settings/flat.py writes. Read strictly: every key once and no other,
 * every value within its type. Not read here: the durations of a replay. Not thread-safe. */
#ifndef PW_NODE_CONFIG_FILE_H
#define PW_NODE_CONFIG_FILE_H
#include "native/costs.h"
#include "native/impairments.h"
#include "native/settings.h"
#include "transport/node/cost_table.h"
#include "transport/node/node.h"

/* cdef begin */
#define PW_CONFIG_NAME_BYTES 256
#define PW_CONFIG_PATH_BYTES 4096
#define PW_CONFIG_REASON_BYTES 1024
#define PW_CONFIG_CHANGED_MAX 256
#define PW_CONFIG_FILE_MAX_BYTES 4194304

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
    int64_t num_nodes;
    char memory[PW_CONFIG_NAME_BYTES];     /* the memory strategy */
    char policy[PW_CONFIG_NAME_BYTES];     /* for messages: the engine's is in pw_settings */
    char scheduling[PW_CONFIG_NAME_BYTES]; /* `size`: the firmware's own */
    char platform[PW_CONFIG_PATH_BYTES];
    int64_t compute; /* PW_COMPUTE_* */
    double compute_scale;
    char compute_record[PW_CONFIG_PATH_BYTES]; /* empty: none; else the rank's is FILE.RANK */
    char compute_replay[PW_CONFIG_PATH_BYTES]; /* the same */
    int64_t wtime;                             /* PW_WTIME_* */
    int64_t clocks;                            /* PW_CLOCKS_*; the program's other clocks, sleeps */
    int64_t wire;                              /* PW_CARRIER_* */
    char wire_interface[PW_CONFIG_NAME_BYTES]; /* empty: the first */
    int64_t huge_pages;                        /* PW_HUGE_PAGES_* */
    int64_t watchdog_ns;                       /* -1: none */
    bool strict;
    bool quiet;
    char json[PW_CONFIG_PATH_BYTES];  /* empty: none */
    char trace[PW_CONFIG_PATH_BYTES]; /* the same */
    char html[PW_CONFIG_PATH_BYTES];
} pw_node_run;

/* A setting that is not default, as text, for the report. */
typedef struct {
    const char *name, *text;
} pw_changed_setting;

typedef struct {
    pw_costs costs;
    pw_settings settings;
    pw_cost_tables tables;
    pw_node_run run;
    pw_impairment_site impairments[PW_IMPAIRMENT_SITES]; /* the plan of the node that reads */
    pw_changed_setting changed[PW_CONFIG_CHANGED_MAX];
    uint32_t num_changed;
    char *text; /* the file's; `changed` points into it */
} pw_node_config;

/* Read the configuration of node. PW_ERR_HOST (errno), PW_ERR_NOMEM, PW_ERR_INVALID: reason is a
 * sentence that names file, line, key, value and what is allowed, and there is nothing to free. */
int pw_node_config_read(const char *path, uint32_t node, pw_node_config *out,
                        char reason[PW_CONFIG_REASON_BYTES]);
void pw_node_config_free(pw_node_config *config);

/* PW_ERR_INVALID and a sentence when the settings name a class in Python, which only a host with
 * Python can ask. */
int pw_node_config_check_native(const pw_node_config *config, char reason[PW_CONFIG_REASON_BYTES]);
/* What the file says of a node's options; the config must outlive them. Strategy, host, protection
 * domain and the durations of a replay are the host's to add. */
void pw_node_config_options(const pw_node_config *config, pw_node_options *out);
/* cdef end */
#endif
