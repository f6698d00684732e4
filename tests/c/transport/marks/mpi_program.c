/* Two ranks or more call MPI in most of its ways and print what they got. With the argument `told`
 * the program is itself the host of the marking library and prints what that tells it. */
#include "transport/marks/marks.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char told[1024];
static uint64_t num_unbalanced;

static void enter(const pagewire_marked_call *call)
{
    const size_t length = strlen(told);
    snprintf(told + length, sizeof told - length, " %s/%u", call->name, call->kind);
    num_unbalanced++;
}

static void leave(const pagewire_marked_call *call)
{
    (void)call;
    num_unbalanced--;
}

static int64_t clock_read(void) { return 42000000000; }

static const pagewire_marks_host host = {
    .struct_size = sizeof host,
    .version = PAGEWIRE_MARKS_VERSION,
    .has_virtual_wtime = 1,
    .enter = enter,
    .leave = leave,
    .clock_read = clock_read,
};

static int attach(const pagewire_marks_host *new_host)
{
    int (*function)(const pagewire_marks_host *);
    *(void **)&function = dlsym(RTLD_DEFAULT, "pagewire_marks_attach");
    return function ? function(new_host) : -1;
}

int main(int argc, char **argv)
{
    int rank, size, flag = 0, class = 0;
    MPI_Init(&argc, &argv);
    const int is_host = argc > 1 && strcmp(argv[1], "told") == 0;
    if (is_host && attach(&host) != 0) return 2;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int here[4] = {rank, rank + 1, rank + 2, rank + 3}, there[4] = {0}, sum[4] = {0}, all[64] = {0};
    MPI_Request request;
    MPI_Status status;
    MPI_Sendrecv(here, 4, MPI_INT, next, 7, there, 4, MPI_INT, last, 7, MPI_COMM_WORLD, &status);
    MPI_Irecv(all, 4, MPI_INT, last, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Send(there, 4, MPI_INT, next, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Allreduce(here, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(here, 1, MPI_INT, all + 4, 1, MPI_INT, MPI_COMM_WORLD);

    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Win window;
    MPI_Win_create(all, sizeof all, sizeof(int), MPI_INFO_NULL, half, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 40, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&half);

    MPI_Request_get_status(request, &flag, &status);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Send(here, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD), &class);
    const double now = MPI_Wtime();
    if (is_host) attach(NULL);
    MPI_Finalize();
    printf("%d of %d: %d %d %d tag %d sum %d %d flag %d rank error %d\n", rank, size, there[0],
           all[0], all[4 + last], status.MPI_TAG == 9, sum[0], sum[3], flag, class == MPI_ERR_RANK);
    if (is_host) printf("%d at %.9f, %d open:%s\n", rank, now, (int)num_unbalanced, told);
    return 0;
}
