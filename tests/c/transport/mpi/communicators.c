/* Communicators keep their messages apart, in any number; time; sessions. */
#include "check.h"
#include <stdlib.h>

CHECK_PROGRAM(communicators)
{
    enum { NUM = 30 };
    int partner = check_partner(), out[NUM], in[NUM];
    MPI_Comm comms[NUM];
    MPI_Request requests[2 * NUM];
    for (int i = 0; i < NUM; i++) {
        if (i % 3 == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        } else if (i % 3 == 1) {
            MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[0]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            MPI_Group group;
            MPI_Comm_group(MPI_COMM_WORLD, &group);
            MPI_Comm_create_group(MPI_COMM_WORLD, group, i, &comms[i]);
            MPI_Group_free(&group);
        }
    }
    for (int i = 0; i < NUM; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &requests[i]);
    for (int i = NUM - 1; i >= 0; i--) {
        out[i] = i + 100;
        MPI_Isend(&out[i], 1, MPI_INT, partner, 5, comms[i], &requests[NUM + i]);
    }
    MPI_Waitall(2 * NUM, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < NUM; i++) CHECK_INT(in[i], i + 100, "value in its communicator");
    for (int i = 0; i < NUM; i++) MPI_Comm_free(&comms[i]);
    for (int i = 0; i < 50; i++) { /* numbers of freed ones are used again */
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
    }
}

CHECK_PROGRAM(split)
{
    int size, rank, sum = 0;
    MPI_Comm comm;
    for (int step = 1; step <= check_size; step++) {
        int color = check_rank % step ? MPI_UNDEFINED : 3;
        MPI_Comm_split(MPI_COMM_WORLD, color, -check_rank, &comm);
        if (color == MPI_UNDEFINED) {
            CHECK(comm == MPI_COMM_NULL, "a communicator for a rank that wants none");
            continue;
        }
        MPI_Comm_size(comm, &size);
        MPI_Comm_rank(comm, &rank);
        CHECK_INT(size, (check_size + step - 1) / step, "size of the split");
        CHECK_INT(rank, size - 1 - check_rank / step, "rank in the split");
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK_INT(sum, size * (size - 1) / 2, "sum over the split");
        MPI_Comm_free(&comm);
    }
}

CHECK_PROGRAM(wtime)
{
    int partner = check_partner(), value = 0;
    double first = MPI_Wtime(), before = first;
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() <= 1e-3, "MPI_Wtick is %g", MPI_Wtick());
    for (int i = 0; i < 1000; i++) {
        double now_s = MPI_Wtime();
        CHECK(now_s >= before, "time goes back by %g s", before - now_s);
        before = now_s;
    }
    for (int i = 0; i < 20; i++)
        MPI_Sendrecv_replace(&value, 1, MPI_INT, partner, 6, partner, 6, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    double after = MPI_Wtime();
    CHECK(after > before, "20 messages take no time");
    CHECK(after < first + 60, "20 messages take %g s", after - first);
    before = MPI_Wtime();
    volatile double sum = 0;
    for (int i = 0; i < 2000000; i++) sum = sum + i * 0.5;
    after = MPI_Wtime();
    CHECK(after > before, "computing takes no time");
    CHECK(after < before + 60, "2,000,000 additions take %g s", after - before);
}

CHECK_PROGRAM(session)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int size, rank = check_rank, sum = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "pagewire.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_size(comm, &size);
    CHECK_INT(size, check_size, "ranks of the session");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_INT(sum, size * (size - 1) / 2, "sum over the session");
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}
