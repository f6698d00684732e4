/* The program's regions, marked by a host in the same process: Python, which finds these functions
 * by name. Programs in C and Fortran have MPI_Pcontrol (calls.h). */
#include "transport/node/program_regions.h"
#include "transport/fabric/process.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int64_t pagewire_fabric_region_enter(const char *name, uint64_t name_bytes);
EXPORTED void pagewire_fabric_region_leave(int64_t number);

/* As pw_node_region_enter; 0 as long as there is no node. */
int64_t pagewire_fabric_region_enter(const char *name, uint64_t name_bytes)
{
    pw_fi_process *process = pw_fi_process_if_made();
    return process ? pw_node_region_enter(process->node, name, name_bytes) : 0;
}

void pagewire_fabric_region_leave(int64_t number)
{
    pw_fi_process *process = pw_fi_process_if_made();
    if (process) pw_node_region_leave(process->node, number);
}
