/* Files written and read by all ranks; the name of a folder is in MPI_PROGRAMS_FOLDER. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4000 };

CHECK_PROGRAM(files)
{
    char name[512];
    const char *folder = getenv("MPI_PROGRAMS_FOLDER");
    int *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in), num;
    MPI_File file;
    MPI_Offset size_bytes;
    MPI_Status status;
    MPI_Request request;
    MPI_Datatype every_nth;
    snprintf(name, sizeof name, "%s/mpi_programs.%d", folder ? folder : "/tmp", check_size);
    for (int i = 0; i < COUNT; i++) out[i] = check_rank * COUNT + i;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_File_set_size(file, 0);
    MPI_File_write_at_all(file, check_rank * COUNT * (MPI_Offset)sizeof(int), out, COUNT, MPI_INT,
                          &status);
    MPI_Get_count(&status, MPI_INT, &num);
    CHECK_INT(num, COUNT, "ints written");
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &size_bytes);
    CHECK_INT(size_bytes, (MPI_Offset)sizeof(int) * COUNT * check_size, "size of the file");
    int next = (check_rank + 1) % check_size;
    MPI_File_iread_at(file, next * COUNT * (MPI_Offset)sizeof(int), in, COUNT, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++) CHECK_INT(in[i], next * COUNT + i, "int read");
    /* A view each: every size-th int is the rank's; two-phase exchanges in a collective write. */
    MPI_Type_vector(COUNT, 1, check_size, MPI_INT, &every_nth);
    MPI_Type_commit(&every_nth);
    MPI_File_set_view(file, check_rank * (MPI_Offset)sizeof(int), MPI_INT, every_nth, "native",
                      MPI_INFO_NULL);
    MPI_File_write_all(file, out, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    memset(in, 0, COUNT * sizeof *in);
    MPI_File_read_all(file, in, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(!memcmp(in, out, COUNT * sizeof *in), "a view reads something else than it wrote");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at(file, 0, in, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++)
        CHECK_INT(in[i], i % check_size * COUNT + i / check_size, "int of all views");
    MPI_Barrier(MPI_COMM_WORLD);
    /* In the order of ranks, by the pointer that all share. */
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered(file, &check_rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all(file, 0, in, check_size, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < check_size; i++) CHECK_INT(in[i], i, "int in order");
    MPI_Type_free(&every_nth);
    MPI_File_close(&file);
    free(out);
    free(in);
}
