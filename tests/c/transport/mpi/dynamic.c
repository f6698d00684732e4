/* Processes that are started by the program, and groups that find each other by a port. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { COUNT = 50000 };

static void exchange(MPI_Comm other, int num_other, int rank)
{
    int *values = malloc(COUNT * sizeof *values), sum = 0;
    for (int i = 0; i < COUNT; i++) values[i] = rank + i;
    if (rank < num_other)
        MPI_Sendrecv_replace(values, COUNT, MPI_INT, rank, 1, rank, 1, other, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++) CHECK_INT(values[i], rank + i, "element from the other group");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
    CHECK_INT(sum, num_other * (num_other - 1) / 2, "sum of the other group's ranks");
    free(values);
}

CHECK_PROGRAM(spawned)
{
    MPI_Comm parent;
    int num_parents;
    MPI_Comm_get_parent(&parent);
    CHECK(parent != MPI_COMM_NULL, "spawned is started by spawn");
    MPI_Comm_remote_size(parent, &num_parents);
    exchange(parent, num_parents, check_rank);
    MPI_Comm_disconnect(&parent);
}

CHECK_PROGRAM(spawn)
{
    char *arguments[] = {"spawned", NULL};
    MPI_Comm children;
    int num_children, codes[2] = {-1, -1};
    MPI_Comm_spawn(check_command, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    MPI_Comm_remote_size(children, &num_children);
    CHECK_INT(num_children, 2, "children");
    CHECK_INT(codes[0] | codes[1], MPI_SUCCESS, "code of a child's start");
    exchange(children, num_children, check_rank);
    MPI_Comm_disconnect(&children);
}

/* The even ranks offer a port, the odd ones connect to it, more than once. */
CHECK_PROGRAM(port)
{
    MPI_Comm half, other;
    int rank, num_other, is_odd = check_rank % 2;
    if (check_size < 2) return;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, 0, &half);
    MPI_Comm_rank(half, &rank);
    for (int round = 0; round < 2; round++) {
        char name[MPI_MAX_PORT_NAME] = "";
        if (check_rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, name);
            MPI_Send(name, sizeof name, MPI_CHAR, 1, 9, MPI_COMM_WORLD);
        }
        if (check_rank == 1)
            MPI_Recv(name, sizeof name, MPI_CHAR, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is_odd) MPI_Comm_connect(name, MPI_INFO_NULL, 0, half, &other);
        else MPI_Comm_accept(name, MPI_INFO_NULL, 0, half, &other);
        MPI_Comm_remote_size(other, &num_other);
        CHECK_INT(num_other, (check_size + is_odd) / 2, "ranks behind the port");
        exchange(other, num_other, rank);
        MPI_Comm_disconnect(&other);
        if (check_rank == 0) MPI_Close_port(name);
    }
    MPI_Comm_free(&half);
}
