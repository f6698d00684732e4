/* Accumulate and its kin, for all operations and many types. The oracle for one value is
 * MPI_Reduce_local, which moves nothing; for many ranks at once, sums that no order changes. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, MAX_ELEMENT_BYTES = 32 };

typedef struct {
    MPI_Datatype type;
    const char *name;
    int size_bytes;
    int is_integer;
} value_type;

#define TYPE(type, ctype, is_integer) {type, #type, sizeof(ctype), is_integer}

static MPI_Info info_of(int is_native)
{
    MPI_Info info = MPI_INFO_NULL;
    if (is_native) { /* so that the MPI may use the NI's own atomics */
        MPI_Info_create(&info);
        MPI_Info_set(info, "accumulate_ops", "same_op_no_op");
        MPI_Info_set(info, "accumulate_ordering", "none");
        MPI_Info_set(info, "same_disp_unit", "true");
    }
    return info;
}

static void put_numbers(void *values, const value_type *type, int seed)
{
    for (int i = 0; i < COUNT; i++) {
        int number = (i * 3 + seed * 7) % 5;
        char *at = (char *)values + i * type->size_bytes;
        float f = (float)number;
        double d = number;
        long long l = number;
        memset(at, 0, (size_t)type->size_bytes);
        if (type->type == MPI_FLOAT) memcpy(at, &f, sizeof f);
        else if (type->type == MPI_DOUBLE) memcpy(at, &d, sizeof d);
        else memcpy(at, &l, (size_t)type->size_bytes); /* little-endian */
    }
}

static const struct {
    const char *name;
    int needs_integer;
} operations[] = {
    {"MPI_SUM", 0},  {"MPI_PROD", 0}, {"MPI_MAX", 0},     {"MPI_MIN", 0},
    {"MPI_LAND", 1}, {"MPI_LOR", 1},  {"MPI_LXOR", 1},    {"MPI_BAND", 1},
    {"MPI_BOR", 1},  {"MPI_BXOR", 1}, {"MPI_REPLACE", 0}, {"MPI_NO_OP", 0},
};
enum { NUM_OPERATIONS = sizeof operations / sizeof *operations };

/* The target's numbers for one operation, changed by one origin in four ways. */
static void change(const value_type *type, int nth_op, int origin, char *wanted, MPI_Win win)
{
    const MPI_Op ops[NUM_OPERATIONS] = {MPI_SUM,  MPI_PROD, MPI_MAX,     MPI_MIN,
                                        MPI_LAND, MPI_LOR,  MPI_LXOR,    MPI_BAND,
                                        MPI_BOR,  MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
    char mine[COUNT * MAX_ELEMENT_BYTES], before[sizeof mine], fetched[sizeof mine];
    MPI_Op op = ops[nth_op];
    MPI_Aint at = nth_op * COUNT;
    int target = check_size - 1;
    for (int way = op == MPI_NO_OP; way < 4; way++) { /* Accumulate has no MPI_NO_OP */
        int count = way < 2 ? COUNT : 1;
        size_t num_bytes = (size_t)(count * type->size_bytes);
        put_numbers(mine, type, origin + way);
        memcpy(before, wanted, num_bytes);
        if (op == MPI_REPLACE) memcpy(wanted, mine, num_bytes);
        else if (op != MPI_NO_OP) MPI_Reduce_local(mine, wanted, count, type->type, op);
        if (origin != check_rank) continue;
        if (way == 0)
            MPI_Accumulate(mine, count, type->type, target, at, count, type->type, op, win);
        else if (way == 2) MPI_Fetch_and_op(mine, fetched, type->type, target, at, op, win);
        else
            MPI_Get_accumulate(mine, count, type->type, fetched, count, type->type, target, at,
                               count, type->type, op, win);
        MPI_Win_flush(target, win);
        CHECK(!way || !memcmp(fetched, before, num_bytes),
              "%s of %s, way %d: fetched something else than what was there",
              operations[nth_op].name, type->name, way);
    }
}

/* One origin after the other, so that the outcome is known for operations that do not commute. */
static void one_by_one(const value_type *type, char *window, MPI_Win win)
{
    size_t num_bytes = (size_t)(COUNT * type->size_bytes);
    char *wanted = malloc(NUM_OPERATIONS * num_bytes);
    for (size_t i = 0; i < NUM_OPERATIONS; i++) {
        put_numbers(window + i * num_bytes, type, 1);
        put_numbers(wanted + i * num_bytes, type, 1);
    }
    MPI_Win_sync(win);
    for (int origin = 0; origin < check_size; origin++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < NUM_OPERATIONS; i++)
            if (type->is_integer || !operations[i].needs_integer)
                change(type, i, origin, wanted + (size_t)i * num_bytes, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (size_t i = 0; i < NUM_OPERATIONS && check_rank == check_size - 1; i++)
        CHECK(!memcmp(window + i * num_bytes, wanted + i * num_bytes, num_bytes),
              "%s of %s: the window holds something else", operations[i].name, type->name);
    free(wanted);
}

static void all_operations(int is_native)
{
    const value_type types[] = {
        TYPE(MPI_INT8_T, int8_t, 1),   TYPE(MPI_UINT16_T, uint16_t, 1),
        TYPE(MPI_INT, int, 1),         TYPE(MPI_UINT32_T, uint32_t, 1),
        TYPE(MPI_INT64_T, int64_t, 1), TYPE(MPI_UINT64_T, uint64_t, 1),
        TYPE(MPI_FLOAT, float, 0),     TYPE(MPI_DOUBLE, double, 0),
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char *window;
        MPI_Win win;
        MPI_Info info = info_of(is_native);
        MPI_Win_allocate(NUM_OPERATIONS * COUNT * types[i].size_bytes, types[i].size_bytes, info,
                         MPI_COMM_WORLD, &window, &win);
        MPI_Win_lock_all(0, win);
        one_by_one(&types[i], window, win);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
        if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    }
}

CHECK_PROGRAM(accumulate) { all_operations(0); }
CHECK_PROGRAM(accumulate_native) { all_operations(1); }

/* All ranks at once to all ranks: no addition is lost, no ticket is given twice. */
static void at_once(int is_native)
{
    enum { ROUNDS = 40, BIG = 3000 };
    struct {
        int64_t ticket, lock, sums[BIG];
    } *window;
    static int64_t ones[BIG], seen[ROUNDS];
    int64_t one = 1, zero = 0;
    MPI_Win win;
    MPI_Info info = info_of(is_native);
    MPI_Win_allocate(sizeof *window, sizeof(int64_t), info, MPI_COMM_WORLD, &window, &win);
    memset(window, 0, sizeof *window);
    for (int i = 0; i < BIG; i++) ones[i] = 1 + i % 3;
    MPI_Win_lock_all(0, win);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &seen[i], MPI_INT64_T, 0, 0, MPI_SUM, win);
        for (int to = 0; to < check_size; to++)
            MPI_Accumulate(ones, i % 10 ? 3 : BIG, MPI_INT64_T, to, 2, i % 10 ? 3 : BIG,
                           MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush_all(win);
        CHECK(!i || seen[i] > seen[i - 1], "tickets of a rank do not rise");
    }
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t *all = malloc((size_t)check_size * sizeof seen);
    MPI_Allgather(seen, ROUNDS, MPI_INT64_T, all, ROUNDS, MPI_INT64_T, MPI_COMM_WORLD);
    char *is_given = calloc((size_t)(check_size * ROUNDS), 1);
    for (int i = 0; i < check_size * ROUNDS; i++) {
        CHECK(all[i] >= 0 && all[i] < check_size * ROUNDS && !is_given[all[i]],
              "ticket %lld was given twice or to nobody", (long long)all[i]);
        is_given[all[i]] = 1;
    }
    free(is_given);
    free(all);
    for (int i = 0; i < BIG; i++)
        CHECK_INT(window->sums[i], ones[i] * check_size * (i < 3 ? ROUNDS : ROUNDS / 10), "sum");
    MPI_Barrier(MPI_COMM_WORLD);
    /* A lock by Compare_and_swap around an addition that is none of the NI's. */
    for (int i = 0; i < 10; i++) {
        int64_t before, value;
        do {
            MPI_Compare_and_swap(&one, &zero, &before, MPI_INT64_T, 0, 1, win);
            MPI_Win_flush(0, win);
        } while (before);
        MPI_Get(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Fetch_and_op(&zero, &before, MPI_INT64_T, 0, 1, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        CHECK_INT(before, 1, "lock that is let go");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    if (check_rank == 0)
        CHECK_INT(window->sums[0], check_size * (ROUNDS + 10), "sum under the lock");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
}

CHECK_PROGRAM(atomics) { at_once(0); }
CHECK_PROGRAM(atomics_native) { at_once(1); }

/* Pairs of value and place, and strided targets, which no NI has atomics for. */
CHECK_PROGRAM(accumulate_types)
{
    struct pair {
        double value;
        int place;
    } *window, mine[10];
    MPI_Win win;
    MPI_Datatype every_other;
    MPI_Win_allocate(10 * sizeof *window, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    for (int i = 0; i < 10; i++) {
        window[i].value = window[i].place = -1;
        mine[i].value = (check_rank + i) % check_size;
        mine[i].place = check_rank;
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(mine, 10, MPI_DOUBLE_INT, 0, 0, 10, MPI_DOUBLE_INT, MPI_MAXLOC, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 10 && check_rank == 0; i++) {
        CHECK(window[i].value == check_size - 1, "greatest value is %g", window[i].value);
        CHECK_INT((window[i].place + i) % check_size, check_size - 1, "place of the greatest");
    }
    MPI_Win_free(&win);
    int *ints, ones[50];
    for (int i = 0; i < 50; i++) ones[i] = i;
    MPI_Type_vector(50, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_allocate(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &ints, &win);
    memset(ints, 0, 100 * sizeof(int));
    MPI_Win_fence(0, win);
    for (int to = 0; to < check_size; to++)
        MPI_Accumulate(ones, 50, MPI_INT, to, 0, 1, every_other, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 100; i++)
        CHECK_INT(ints[i], i % 2 ? 0 : check_size * (i / 2), "strided sum");
    MPI_Type_free(&every_other);
    MPI_Win_free(&win);
}
