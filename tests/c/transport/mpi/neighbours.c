/* Neighbourhood collectives on a ring, on a Cartesian grid and on a graph, in their three forms. */
#include "check.h"
#include "forms.h"
#include <stdlib.h>

enum { COUNT = 600, MAX_DEGREE = 16, STRIDE = 2 * COUNT };

static int element(int from, int nth, int index) { return from * 100000 + nth * 10000 + index; }

/* Of the graph's edge number `nth` out of a rank. */
static int count_of(int from, int nth) { return (from + nth) % 3 == 0 ? 0 : COUNT - from - nth; }

typedef struct {
    MPI_Comm comm;
    int num_sources, sources[MAX_DEGREE], edges[MAX_DEGREE]; /* edge: which of the source's */
    int num_targets;
} hood;

static void check_edge(const int *in, const hood *near, int nth, int edge, int count,
                       const char *what)
{
    if (near->sources[nth] == MPI_PROC_NULL) return;
    for (int i = 0; i < count; i++) CHECK_INT(in[i], element(near->sources[nth], edge, i), what);
}

static void gathers(const hood *near, enum form form)
{
    static int out[COUNT], in[MAX_DEGREE * STRIDE];
    int counts[MAX_DEGREE], places[MAX_DEGREE];
    for (int i = 0; i < COUNT; i++) out[i] = element(check_rank, 0, i);
    COLLECTIVE(form, Neighbor_allgather, Ineighbor_allgather, out, COUNT, MPI_INT, in, COUNT,
               MPI_INT, near->comm);
    for (int nth = 0; nth < near->num_sources; nth++) {
        check_edge(in + nth * COUNT, near, nth, 0, COUNT, "Neighbor_allgather");
        counts[nth] = near->sources[nth] == MPI_PROC_NULL ? 0 : count_of(near->sources[nth], 0);
        places[nth] = nth * STRIDE;
    }
    COLLECTIVE(form, Neighbor_allgatherv, Ineighbor_allgatherv, out, count_of(check_rank, 0),
               MPI_INT, in, counts, places, MPI_INT, near->comm);
    for (int nth = 0; nth < near->num_sources; nth++)
        check_edge(in + places[nth], near, nth, 0, counts[nth], "Neighbor_allgatherv");
}

static void exchanges(const hood *near, enum form form)
{
    static int out[MAX_DEGREE * STRIDE], in[MAX_DEGREE * STRIDE];
    int in_counts[MAX_DEGREE], out_counts[MAX_DEGREE], places[MAX_DEGREE];
    MPI_Aint byte_places[MAX_DEGREE];
    MPI_Datatype types[MAX_DEGREE];
    for (int nth = 0; nth < near->num_targets; nth++)
        for (int i = 0; i < COUNT; i++) out[nth * COUNT + i] = element(check_rank, nth, i);
    COLLECTIVE(form, Neighbor_alltoall, Ineighbor_alltoall, out, COUNT, MPI_INT, in, COUNT, MPI_INT,
               near->comm);
    for (int nth = 0; nth < near->num_sources; nth++)
        check_edge(in + nth * COUNT, near, nth, near->edges[nth], COUNT, "Neighbor_alltoall");
    for (int nth = 0; nth < MAX_DEGREE; nth++) {
        in_counts[nth] = out_counts[nth] = 0;
        if (nth < near->num_sources && near->sources[nth] != MPI_PROC_NULL)
            in_counts[nth] = count_of(near->sources[nth], near->edges[nth]);
        if (nth < near->num_targets) out_counts[nth] = count_of(check_rank, nth);
        places[nth] = nth * STRIDE;
        byte_places[nth] = places[nth] * (MPI_Aint)sizeof(int);
        types[nth] = MPI_INT;
        for (int i = 0; i < out_counts[nth]; i++)
            out[places[nth] + i] = element(check_rank, nth, i);
    }
    for (int is_w = 0; is_w < 2; is_w++) {
        for (int i = 0; i < MAX_DEGREE * STRIDE; i++) in[i] = -1;
        if (is_w)
            COLLECTIVE(form, Neighbor_alltoallw, Ineighbor_alltoallw, out, out_counts, byte_places,
                       types, in, in_counts, byte_places, types, near->comm);
        else
            COLLECTIVE(form, Neighbor_alltoallv, Ineighbor_alltoallv, out, out_counts, places,
                       MPI_INT, in, in_counts, places, MPI_INT, near->comm);
        for (int nth = 0; nth < near->num_sources; nth++)
            check_edge(in + places[nth], near, nth, near->edges[nth], in_counts[nth],
                       is_w ? "Neighbor_alltoallw" : "Neighbor_alltoallv");
    }
}

static void all_forms(const hood *near)
{
    for (enum form form = BLOCKING; form < NUM_FORMS; form++) {
        gathers(near, form);
        exchanges(near, form);
    }
}

CHECK_PROGRAM(neighbours_grid)
{
    int is_periodic[2] = {1, 0}, dims[2] = {0, 0};
    hood near = {.num_sources = 4, .num_targets = 4};
    MPI_Dims_create(check_size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, is_periodic, 0, &near.comm);
    for (int direction = 0; direction < 2; direction++) {
        int *below = &near.sources[2 * direction];
        MPI_Cart_shift(near.comm, direction, 1, &below[0], &below[1]);
        /* What comes from below was sent upwards: the sender's second edge of the direction. */
        near.edges[2 * direction] = 2 * direction + 1;
        near.edges[2 * direction + 1] = 2 * direction;
    }
    all_forms(&near);
    MPI_Comm_free(&near.comm);
}

/* Rank r sends to r+1, r+2 and to itself (modulo the size). */
CHECK_PROGRAM(neighbours_graph)
{
    hood near = {.num_sources = 3, .num_targets = 3};
    int targets[3];
    for (int nth = 0; nth < 3; nth++) {
        int step = (nth + 1) % 3;
        targets[nth] = (check_rank + step) % check_size;
        near.sources[nth] = (check_rank + 2 * check_size - step) % check_size;
        near.edges[nth] = nth;
    }
    /* Edges between the same two ranks are told apart by their order only. */
    if (check_size < 3) near.num_sources = near.num_targets = 1;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, near.num_sources, near.sources, MPI_UNWEIGHTED,
                                   near.num_targets, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &near.comm);
    all_forms(&near);
    MPI_Comm_free(&near.comm);
}
