/* Windows and their three ways of synchronising: fence, post-start-complete-wait, locks. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { COUNT = 20000, SMALL = 5 };

static int element(int from, int to, int index) { return from * 1000003 + to * 10007 + index; }

static void put_elements(int *values, int from, int to, int count)
{
    for (int i = 0; i < count; i++) values[i] = element(from, to, i);
}

static void check_elements(const int *values, int from, int to, int count, const char *what)
{
    for (int i = 0; i < count; i++) CHECK_INT(values[i], element(from, to, i), what);
}

CHECK_PROGRAM(one_sided_fence)
{
    size_t window_bytes = (size_t)check_size * COUNT * sizeof(int);
    int *window = check_map(window_bytes), *out = check_map(window_bytes);
    int *in = check_map(window_bytes), counts[] = {SMALL, COUNT};
    MPI_Win win;
    MPI_Win_create(window, (MPI_Aint)window_bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &win);
    for (int i = 0; i < 2; i++) {
        check_drop(window, window_bytes);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        for (int to = 0; to < check_size; to++) {
            put_elements(out + to * COUNT, check_rank, to, counts[i]);
            MPI_Put(out + to * COUNT, counts[i], MPI_INT, to, check_rank * COUNT, counts[i],
                    MPI_INT, win);
        }
        MPI_Win_fence(0, win);
        for (int from = 0; from < check_size; from++)
            check_elements(window + from * COUNT, from, check_rank, counts[i], "Put with fence");
        check_drop(in, window_bytes);
        for (int from = 0; from < check_size; from++)
            MPI_Get(in + from * COUNT, counts[i], MPI_INT, from, check_rank * COUNT, counts[i],
                    MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        for (int to = 0; to < check_size; to++)
            check_elements(in + to * COUNT, check_rank, to, counts[i], "Get with fence");
    }
    MPI_Win_free(&win);
    check_unmap(window, window_bytes);
    check_unmap(out, window_bytes);
    check_unmap(in, window_bytes);
}

/* Everyone puts to the rank above and is put to by the rank below. */
CHECK_PROGRAM(one_sided_pscw)
{
    int *window, *out = malloc(COUNT * sizeof *out);
    int above = (check_rank + 1) % check_size, below = (check_rank + check_size - 1) % check_size;
    MPI_Win win;
    MPI_Group world, up, down;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &above, &up);
    MPI_Group_incl(world, 1, &below, &down);
    MPI_Win_allocate(COUNT * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD, &window,
                     &win);
    for (int round = 0; round < 6; round++) {
        int count = round % 2 ? COUNT : SMALL, flag = 0;
        put_elements(out, check_rank, round, count);
        MPI_Win_post(down, 0, win);
        MPI_Win_start(up, 0, win);
        MPI_Put(out, count, MPI_INT, above, 0, count, MPI_INT, win);
        MPI_Win_complete(win);
        if (round < 3) MPI_Win_wait(win);
        else
            while (!flag) MPI_Win_test(win, &flag);
        check_elements(window, below, round, count, "Put with post and start");
    }
    MPI_Group_free(&up);
    MPI_Group_free(&down);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    free(out);
}

CHECK_PROGRAM(one_sided_locks)
{
    int *window, *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out), flag;
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    int num_words = COUNT + 1, *model;
    MPI_Win win;
    MPI_Win_allocate(num_words * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window, &win);
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
    CHECK(flag, "the window has no memory model");
    memset(window, 0, (size_t)num_words * sizeof *window);
    MPI_Barrier(MPI_COMM_WORLD);
    /* An exclusive lock guards a read and a write: no increment is lost. */
    for (int i = 0; i < 50; i++) {
        int value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_INT, 0, COUNT, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, 0, COUNT, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win);
    MPI_Get(in, 1, MPI_INT, 0, COUNT, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    CHECK_INT(in[0], 50 * check_size, "increments under an exclusive lock");
    MPI_Win_lock_all(0, win);
    put_elements(out, check_rank, next, COUNT);
    MPI_Put(out, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, win);
    MPI_Win_flush_local(next, win);
    memset(out, 0, COUNT * sizeof *out); /* the origin's buffer is free after the local flush */
    MPI_Win_flush(next, win);
    MPI_Get(in, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, win);
    MPI_Win_flush_all(win);
    check_elements(in, check_rank, next, COUNT, "Get after Put and flush");
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    check_elements(window, previous, check_rank, COUNT, "Put under lock_all");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request requests[2];
    put_elements(out, check_rank, 99, COUNT);
    MPI_Rput(out, COUNT / 2, MPI_INT, next, 0, COUNT / 2, MPI_INT, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(next, win);
    MPI_Rget(in, COUNT / 2, MPI_INT, next, 0, COUNT / 2, MPI_INT, win, &requests[0]);
    MPI_Rget(in + COUNT / 2, COUNT / 2, MPI_INT, next, COUNT / 2, COUNT / 2, MPI_INT, win,
             &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check_elements(in, check_rank, 99, COUNT / 2, "Rget of what Rput wrote");
    CHECK_INT(in[COUNT - 1], element(check_rank, next, COUNT - 1), "Rget of what Put wrote");
    MPI_Win_flush_local_all(win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(in);
    free(out);
}

/* Strided at the origin and at the target, in other strides. */
CHECK_PROGRAM(one_sided_strides)
{
    enum { BLOCKS = 300 };
    double *window, out[BLOCKS * 3];
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    MPI_Datatype thirds, pairs;
    MPI_Win win;
    MPI_Type_vector(BLOCKS, 1, 3, MPI_DOUBLE, &thirds);
    MPI_Type_vector(BLOCKS / 2, 2, 7, MPI_DOUBLE, &pairs);
    MPI_Type_commit(&thirds);
    MPI_Type_commit(&pairs);
    MPI_Win_allocate(BLOCKS * 4 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window, &win);
    for (int i = 0; i < BLOCKS * 4; i++) window[i] = -1;
    for (int i = 0; i < BLOCKS * 3; i++) out[i] = check_rank * 10000 + i;
    MPI_Win_fence(0, win);
    MPI_Put(out, 1, thirds, next, 0, 1, pairs, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < BLOCKS / 2 * 7 - 5; i++)
        CHECK(window[i] == (i % 7 < 2 ? previous * 10000 + 3 * (i / 7 * 2 + i % 7) : -1),
              "double %d of the window is %g", i, window[i]);
    memset(out, 0, sizeof out);
    MPI_Win_fence(0, win);
    MPI_Get(out, BLOCKS, MPI_DOUBLE, next, 0, 1, pairs, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(out[i] == check_rank * 10000 + 3 * i, "double %d that Get brought is %g", i, out[i]);
    MPI_Type_free(&thirds);
    MPI_Type_free(&pairs);
    MPI_Win_free(&win);
}

CHECK_PROGRAM(one_sided_dynamic)
{
    int *pieces[3], next = (check_rank + 1) % check_size;
    int previous = (check_rank + check_size - 1) % check_size;
    MPI_Aint places[3], theirs[3];
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            pieces[i] = check_map(COUNT * sizeof(int));
            MPI_Win_attach(win, pieces[i], COUNT * sizeof(int));
            MPI_Get_address(pieces[i], &places[i]);
        }
        MPI_Sendrecv(places, 3, MPI_AINT, previous, 1, theirs, 3, MPI_AINT, next, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < 3; i++) {
            int out[100], in[100];
            put_elements(out, check_rank, i, 100);
            MPI_Put(out, 100, MPI_INT, next, theirs[i] + 1000 * (MPI_Aint)sizeof(int), 100, MPI_INT,
                    win);
            MPI_Win_flush(next, win);
            MPI_Get(in, 100, MPI_INT, next, theirs[i] + 1000 * (MPI_Aint)sizeof(int), 100, MPI_INT,
                    win);
            MPI_Win_flush(next, win);
            check_elements(in, check_rank, i, 100, "Get from a dynamic window");
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++) {
            check_elements(pieces[i] + 1000, previous, i, 100, "Put to a dynamic window");
            MPI_Win_detach(win, pieces[i]);
            check_unmap(pieces[i], COUNT * sizeof(int));
        }
    }
    MPI_Win_free(&win);
}

/* Only ranks of one host share memory; without node-local memory each is alone. */
CHECK_PROGRAM(one_sided_shared)
{
    MPI_Comm host;
    MPI_Win win;
    int *mine, *theirs, rank, size, unit;
    MPI_Aint size_bytes;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_size(host, &size);
    MPI_Win_allocate_shared(1000 * sizeof(int), sizeof(int), MPI_INFO_NULL, host, &mine, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 1000; i++) mine[i] = element(rank, 5, i);
    MPI_Win_sync(win);
    MPI_Barrier(host);
    MPI_Win_sync(win);
    for (int peer = 0; peer < size; peer++) {
        MPI_Win_shared_query(win, peer, &size_bytes, &unit, &theirs);
        CHECK_INT(size_bytes, 1000 * sizeof(int), "size of a shared piece");
        check_elements(theirs, peer, 5, 1000, "shared memory");
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
}
