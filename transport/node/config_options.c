/* What a node file means for a node without Python. */
#include <stdio.h>
#include <string.h>

#include "transport/node/config_file.h"

static int refuse(char *reason, const char *setting, const char *value)
{
    snprintf(reason, PW_CONFIG_REASON_BYTES,
             "%s = '%.200s' is a class in Python, which a program without Python cannot ask; take "
             "a built-in one (`pagewire info` lists them)",
             setting, value);
    return PW_ERR_INVALID;
}

int pw_node_config_check_native(const pw_node_config *config, char reason[PW_CONFIG_REASON_BYTES])
{
    const pw_node_run *run = &config->run;
    if (strchr(run->memory, ':')) return refuse(reason, "run.memory", run->memory);
    if (config->settings.policy == PW_POLICY_HOST) return refuse(reason, "run.policy", run->policy);
    if (strcmp(run->scheduling, "size"))
        return refuse(reason, "firmware.scheduling", run->scheduling);
    return PW_OK;
}

void pw_node_config_options(const pw_node_config *config, pw_node_options *out)
{
    *out = (pw_node_options){
        .costs = &config->costs,
        .settings = &config->settings,
        .tables = &config->tables,
        .clock = {.call_ns = config->costs.mpi_call_ns,
                  .poll_ns = config->costs.poll_ns,
                  .read_ns = config->costs.clock_read_ns,
                  .compute = config->run.compute,
                  .scale = config->run.compute_scale,
                  .is_recording = config->run.compute_record[0] != '\0'},
    };
}
