/* A collective in its three forms, so that each is written once: blocking, non-blocking,
 * persistent. */
#ifndef PW_TESTS_MPI_FORMS_H
#define PW_TESTS_MPI_FORMS_H
#include <mpi.h>

enum form { BLOCKING, NONBLOCKING, PERSISTENT, NUM_FORMS };

/* Ends by tests every other time: a loop on MPI_Test must end as MPI_Wait does. */
static inline void finish(MPI_Request *request)
{
    static int num_finished;
    int flag = 0;
    if (num_finished++ % 2) MPI_Wait(request, MPI_STATUS_IGNORE);
    else
        while (!flag) MPI_Test(request, &flag, MPI_STATUS_IGNORE);
}

/* COLLECTIVE(form, Bcast, Ibcast, arguments...) */
#define COLLECTIVE(form, name, iname, ...)                                \
    do {                                                                  \
        MPI_Request form_request;                                         \
        if ((form) == BLOCKING) {                                         \
            MPI_##name(__VA_ARGS__);                                      \
        } else if ((form) == NONBLOCKING) {                               \
            MPI_##iname(__VA_ARGS__, &form_request);                      \
            finish(&form_request);                                        \
        } else {                                                          \
            MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &form_request); \
            MPI_Start(&form_request);                                     \
            finish(&form_request);                                        \
            MPI_Request_free(&form_request);                              \
        }                                                                 \
    } while (0)

#endif
