/* Every collective that reduces, in its three forms, for all operations and many types. */
#include "check.h"
#include "forms.h"
#include <complex.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

/* What rank `from` gives: small, so that products of four ranks are exact in all types. */
static int value_of(int from, int index) { return (from * 7 + index * 3) % 5; }

static int combined(MPI_Op op, int a, int b)
{
    if (op == MPI_SUM) return a + b;
    if (op == MPI_PROD) return a * b;
    if (op == MPI_MAX) return a > b ? a : b;
    if (op == MPI_MIN) return a < b ? a : b;
    if (op == MPI_LAND) return a && b;
    if (op == MPI_LOR) return a || b;
    if (op == MPI_LXOR) return !a != !b;
    if (op == MPI_BAND) return a & b;
    if (op == MPI_BOR) return a | b;
    return a ^ b;
}

/* Of ranks first..last. */
static int expected(MPI_Op op, int first, int last, int index)
{
    int result = value_of(first, index);
    for (int from = first + 1; from <= last; from++)
        result = combined(op, result, value_of(from, index));
    return result;
}

static void reduce_ints(MPI_Comm comm, enum form form, MPI_Op op, int count)
{
    size_t num_ints = (size_t)(count * size);
    int *in = malloc(num_ints * sizeof *in), *out = malloc(num_ints * sizeof *out);
    int *counts = malloc((size_t)size * sizeof *counts), first = 0;
    for (int i = 0; i < count * size; i++) in[i] = value_of(rank, i);
    for (int root = 0; root < size; root++) {
        memset(out, 0xff, num_ints * sizeof *out);
        COLLECTIVE(form, Reduce, Ireduce, in, out, count, MPI_INT, op, root, comm);
        for (int i = 0; i < count; i++)
            CHECK_INT(out[i], rank == root ? expected(op, 0, size - 1, i) : -1, "Reduce");
    }
    COLLECTIVE(form, Allreduce, Iallreduce, in, out, count, MPI_INT, op, comm);
    for (int i = 0; i < count; i++) CHECK_INT(out[i], expected(op, 0, size - 1, i), "Allreduce");
    memcpy(out, in, (size_t)count * sizeof *out);
    COLLECTIVE(form, Allreduce, Iallreduce, MPI_IN_PLACE, out, count, MPI_INT, op, comm);
    for (int i = 0; i < count; i++)
        CHECK_INT(out[i], expected(op, 0, size - 1, i), "Allreduce in place");
    COLLECTIVE(form, Scan, Iscan, in, out, count, MPI_INT, op, comm);
    for (int i = 0; i < count; i++) CHECK_INT(out[i], expected(op, 0, rank, i), "Scan");
    memset(out, 0xff, num_ints * sizeof *out);
    COLLECTIVE(form, Exscan, Iexscan, in, out, count, MPI_INT, op, comm);
    for (int i = 0; i < count && rank > 0; i++)
        CHECK_INT(out[i], expected(op, 0, rank - 1, i), "Exscan");
    COLLECTIVE(form, Reduce_scatter_block, Ireduce_scatter_block, in, out, count, MPI_INT, op,
               comm);
    for (int i = 0; i < count; i++)
        CHECK_INT(out[i], expected(op, 0, size - 1, rank * count + i), "Reduce_scatter_block");
    for (int to = 0; to < size; to++) counts[to] = to == 1 ? 0 : 1 + (count - 1) * (to % 2);
    for (int to = 0; to < rank; to++) first += counts[to];
    COLLECTIVE(form, Reduce_scatter, Ireduce_scatter, in, out, counts, MPI_INT, op, comm);
    for (int i = 0; i < counts[rank]; i++)
        CHECK_INT(out[i], expected(op, 0, size - 1, first + i), "Reduce_scatter");
    free(in);
    free(out);
    free(counts);
}

static void all_reductions(MPI_Comm comm, enum form form)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX,  MPI_MIN, MPI_LAND,
                          MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size > 8) return; /* products would not fit */
    for (size_t i = 0; i < (form == BLOCKING ? sizeof ops / sizeof *ops : 2); i++)
        reduce_ints(comm, form, ops[i], 11);
    reduce_ints(comm, form, MPI_SUM, 1);
    reduce_ints(comm, form, MPI_MAX, 7000);
}

CHECK_PROGRAM(reductions) { all_reductions(MPI_COMM_WORLD, BLOCKING); }
CHECK_PROGRAM(reductions_nonblocking) { all_reductions(MPI_COMM_WORLD, NONBLOCKING); }
CHECK_PROGRAM(reductions_persistent) { all_reductions(MPI_COMM_WORLD, PERSISTENT); }

#define CHECK_TYPE(ctype, type)                                                         \
    do {                                                                                \
        ctype in[100], out[100];                                                        \
        for (int i = 0; i < 100; i++) in[i] = (ctype)value_of(rank, i);                 \
        MPI_Allreduce(in, out, 100, type, MPI_SUM, MPI_COMM_WORLD);                     \
        for (int i = 0; i < 100; i++)                                                   \
            CHECK(out[i] == (ctype)expected(MPI_SUM, 0, size - 1, i), "sum in " #type); \
    } while (0)

CHECK_PROGRAM(reduction_types)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_TYPE(signed char, MPI_SIGNED_CHAR);
    CHECK_TYPE(unsigned char, MPI_UNSIGNED_CHAR);
    CHECK_TYPE(int8_t, MPI_INT8_T);
    CHECK_TYPE(short, MPI_SHORT);
    CHECK_TYPE(uint16_t, MPI_UINT16_T);
    CHECK_TYPE(unsigned, MPI_UNSIGNED);
    CHECK_TYPE(long, MPI_LONG);
    CHECK_TYPE(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    CHECK_TYPE(MPI_Aint, MPI_AINT);
    CHECK_TYPE(float, MPI_FLOAT);
    CHECK_TYPE(double, MPI_DOUBLE);
    CHECK_TYPE(long double, MPI_LONG_DOUBLE);
    CHECK_TYPE(float _Complex, MPI_C_FLOAT_COMPLEX);
    CHECK_TYPE(double _Complex, MPI_C_DOUBLE_COMPLEX);
}

CHECK_PROGRAM(reduction_places)
{
    struct {
        double value;
        int place;
    } in[50], out[50];
    for (int i = 0; i < 50; i++) {
        in[i].value = (check_rank * 13 + i * 7) % 5;
        in[i].place = check_rank;
    }
    for (int is_min = 0; is_min < 2; is_min++) {
        MPI_Allreduce(in, out, 50, MPI_DOUBLE_INT, is_min ? MPI_MINLOC : MPI_MAXLOC,
                      MPI_COMM_WORLD);
        for (int i = 0; i < 50; i++) {
            int best = 0;
            for (int from = 1; from < check_size; from++) {
                int value = (from * 13 + i * 7) % 5, least = (best * 13 + i * 7) % 5;
                if (is_min ? value < least : value > least) best = from;
            }
            CHECK_INT(out[i].place, best, "place of the extreme");
            CHECK(out[i].value == (best * 13 + i * 7) % 5, "extreme value %g", out[i].value);
        }
    }
}
