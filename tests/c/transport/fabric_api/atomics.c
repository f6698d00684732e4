/* Every atomic operation on every type against what it ought to give, computed here in other ways:
 * integers in 128 bits, reals and complex numbers as long double. */
#include "api.h"

#include <complex.h>

#define NUM_ELEMENTS 6
#define ELEMENT_BYTES 32
#define NUM_TYPES 16
#define NUM_OPERATIONS 20

typedef enum { NONE, SIGNED, UNSIGNED, REAL, COMPLEX } class_of;

static const struct {
    class_of class;
    size_t num_bytes;
} types[NUM_TYPES] = {
    [FI_INT8] = {SIGNED, 1},
    [FI_UINT8] = {UNSIGNED, 1},
    [FI_INT16] = {SIGNED, 2},
    [FI_UINT16] = {UNSIGNED, 2},
    [FI_INT32] = {SIGNED, 4},
    [FI_UINT32] = {UNSIGNED, 4},
    [FI_INT64] = {SIGNED, 8},
    [FI_UINT64] = {UNSIGNED, 8},
    [FI_FLOAT] = {REAL, sizeof(float)},
    [FI_DOUBLE] = {REAL, sizeof(double)},
    [FI_FLOAT_COMPLEX] = {COMPLEX, sizeof(float complex)},
    [FI_DOUBLE_COMPLEX] = {COMPLEX, sizeof(double complex)},
    [FI_LONG_DOUBLE] = {REAL, sizeof(long double)},
    [FI_LONG_DOUBLE_COMPLEX] = {COMPLEX, sizeof(long double complex)},
};

typedef union {
    __int128 integer;
    long double complex number;
} value;

static value load(int type, const void *from)
{
    value out = {0};
    if (types[type].class == UNSIGNED) memcpy(&out.integer, from, types[type].num_bytes);
    else if (types[type].class == SIGNED) {
        const int shift = 128 - 8 * (int)types[type].num_bytes;
        memcpy(&out.integer, from, types[type].num_bytes);
        out.integer = (__int128)((unsigned __int128)out.integer << shift) >> shift;
    } else if (type == FI_FLOAT) out.number = *(const float *)from;
    else if (type == FI_DOUBLE) out.number = *(const double *)from;
    else if (type == FI_LONG_DOUBLE) out.number = *(const long double *)from;
    else if (type == FI_FLOAT_COMPLEX) out.number = *(const float complex *)from;
    else if (type == FI_DOUBLE_COMPLEX) out.number = *(const double complex *)from;
    else out.number = *(const long double complex *)from;
    return out;
}

static void store(int type, void *to, value given)
{
    if (types[type].class <= UNSIGNED) memcpy(to, &given.integer, types[type].num_bytes);
    else if (type == FI_FLOAT) *(float *)to = (float)creall(given.number);
    else if (type == FI_DOUBLE) *(double *)to = (double)creall(given.number);
    else if (type == FI_LONG_DOUBLE) *(long double *)to = creall(given.number);
    else if (type == FI_FLOAT_COMPLEX) *(float complex *)to = (float complex)given.number;
    else if (type == FI_DOUBLE_COMPLEX) *(double complex *)to = (double complex)given.number;
    else *(long double complex *)to = given.number;
}

static bool is_integer(int type)
{
    return types[type].class == SIGNED || types[type].class == UNSIGNED;
}

static bool is_wanted(int type, int operation)
{
    const class_of class = types[type].class;
    if (operation == FI_BOR || operation == FI_BAND || operation == FI_BXOR ||
        operation == FI_MSWAP)
        return is_integer(type);
    if (operation == FI_MIN || operation == FI_MAX ||
        (operation >= FI_CSWAP_LE && operation <= FI_CSWAP_GT))
        return class == REAL || is_integer(type);
    return class != NONE && operation <= FI_MSWAP;
}

static bool is_less(int type, value a, value b)
{
    return is_integer(type) ? a.integer < b.integer : creall(a.number) < creall(b.number);
}

static bool is_equal(int type, value a, value b)
{
    return is_integer(type) ? a.integer == b.integer : a.number == b.number;
}

static bool is_true(int type, value a) { return !is_equal(type, a, (value){0}); }

static value truth(int type, bool is_so)
{
    value out = {0};
    if (is_integer(type)) out.integer = is_so;
    else out.number = is_so;
    return out;
}

static value reference(int type, int operation, value old, value operand, value compare)
{
    typedef unsigned __int128 wide;
    const bool is_int = is_integer(type);
    value out = old;
    switch (operation) {
    case FI_MIN: return is_less(type, operand, old) ? operand : old;
    case FI_MAX: return is_less(type, old, operand) ? operand : old;
    case FI_SUM:
        if (is_int) out.integer = (__int128)((wide)old.integer + (wide)operand.integer);
        else out.number = old.number + operand.number;
        return out;
    case FI_PROD:
        if (is_int) out.integer = (__int128)((wide)old.integer * (wide)operand.integer);
        else out.number = old.number * operand.number;
        return out;
    case FI_LOR: return truth(type, is_true(type, old) || is_true(type, operand));
    case FI_LAND: return truth(type, is_true(type, old) && is_true(type, operand));
    case FI_LXOR: return truth(type, is_true(type, old) != is_true(type, operand));
    case FI_BOR: out.integer |= operand.integer; return out;
    case FI_BAND: out.integer &= operand.integer; return out;
    case FI_BXOR: out.integer ^= operand.integer; return out;
    case FI_ATOMIC_WRITE: return operand;
    case FI_CSWAP: return is_equal(type, compare, old) ? operand : old;
    case FI_CSWAP_NE: return !is_equal(type, compare, old) ? operand : old;
    case FI_CSWAP_LE: return !is_less(type, old, compare) ? operand : old;
    case FI_CSWAP_LT: return is_less(type, compare, old) ? operand : old;
    case FI_CSWAP_GE: return !is_less(type, compare, old) ? operand : old;
    case FI_CSWAP_GT: return is_less(type, old, compare) ? operand : old;
    case FI_MSWAP:
        out.integer = (operand.integer & compare.integer) | (old.integer & ~compare.integer);
        return out;
    default: return old; /* FI_ATOMIC_READ */
    }
}

/* Old values, operands and compares that meet in every relation, the ends of the type among them.
 */
static void choose(int type, char *old, char *operand, char *compare)
{
    static const int64_t choices[3][NUM_ELEMENTS] = {
        {0, INT64_MAX, INT64_MIN, 5, -7, 12}, {3, INT64_MAX, -1, 0, -7, 10}, {0, 1, -1, 6, -8, 12}};
    static const double numbers[3][NUM_ELEMENTS] = {
        {0, 1.5, -2.5, 5, -7, 12}, {3, 2.5, -1, 0, -7, 10}, {0, 1, -1, 6, -8, 12}};
    char *const to[] = {old, operand, compare};
    for (int which = 0; which < 3; which++)
        for (size_t i = 0; i < NUM_ELEMENTS; i++) {
            value chosen = {0};
            if (is_integer(type)) {
                chosen.integer = choices[which][i];
                /* The narrow types have their own ends. */
                if (choices[which][i] == INT64_MAX || choices[which][i] == INT64_MIN)
                    chosen.integer = choices[which][i] >> (64 - 8 * types[type].num_bytes);
            } else {
                chosen.number = numbers[which][i];
                if (types[type].class == COMPLEX) chosen.number += 0.5L * (which + 1) * I;
            }
            store(type, to[which] + i * types[type].num_bytes, chosen);
        }
}

typedef struct {
    uint64_t address, key;
} place;

static place open_place(api *self, void *memory, size_t num_bytes, uint64_t access,
                        struct fid_mr **region)
{
    place own = {0}, all[API_PROCESSES_MAX];
    if (self->rank == 1) {
        SAME(fi_mr_reg(self->domain, memory, num_bytes, access, 0, 0, 0, region, NULL), 0);
        own = (place){(uintptr_t)memory, fi_mr_key(*region)};
    }
    api_gather(self, &own, sizeof own, all);
    return all[1];
}

enum form { PLAIN, FETCHING, COMPARING };

static enum form form_of(int operation, int turn)
{
    if (operation >= FI_CSWAP) return COMPARING;
    return turn || operation == FI_ATOMIC_READ ? FETCHING : PLAIN;
}

static void check(int type, int operation, enum form form, const char *found, const char *wanted,
                  const char *what)
{
    /* Long doubles have bytes that say nothing. */
    for (size_t i = 0; i < NUM_ELEMENTS; i++)
        if (!is_equal(type, load(type, found + i * types[type].num_bytes),
                      load(type, wanted + i * types[type].num_bytes)))
            API_FAIL("type %d, operation %d, form %d: element %zu of %s", type, operation, form, i,
                     what);
}

static ssize_t post(api *self, int type, int operation, enum form form, const place *at,
                    const char *operand, const char *compare, char *result)
{
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t peer = self->main.peers[1];
    if (form == PLAIN)
        return fi_atomic(ep, operand, NUM_ELEMENTS, NULL, peer, at->address, at->key,
                         (enum fi_datatype)type, (enum fi_op)operation, result);
    if (form == FETCHING)
        return fi_fetch_atomic(ep, operand, NUM_ELEMENTS, NULL, result, NULL, peer, at->address,
                               at->key, (enum fi_datatype)type, (enum fi_op)operation, result);
    return fi_compare_atomic(ep, operand, NUM_ELEMENTS, NULL, compare, NULL, result, NULL, peer,
                             at->address, at->key, (enum fi_datatype)type, (enum fi_op)operation,
                             result);
}

static int ask_valid(api *self, int type, int operation, enum form form, size_t *count)
{
    struct fid_ep *ep = self->main.ep;
    const enum fi_datatype of = (enum fi_datatype)type;
    const enum fi_op does = (enum fi_op)operation;
    return form == PLAIN      ? fi_atomicvalid(ep, of, does, count)
           : form == FETCHING ? fi_fetch_atomicvalid(ep, of, does, count)
                              : fi_compare_atomicvalid(ep, of, does, count);
}

static void operate(api *self, int type, int operation, enum form form, const place *at)
{
    _Alignas(32) char old[NUM_ELEMENTS * ELEMENT_BYTES] = {0}, operand[sizeof old] = {0},
                                         compare[sizeof old] = {0}, result[sizeof old] = {0},
                                         wanted[sizeof old] = {0}, found[sizeof old] = {0};
    const size_t type_bytes = types[type].num_bytes, num_bytes = NUM_ELEMENTS * type_bytes;
    const uint64_t flags = FI_ATOMIC | (form == PLAIN ? FI_WRITE : FI_READ);
    size_t count = 0;
    if (!is_wanted(type, operation)) {
        SAME(ask_valid(self, type, operation, form, &count), -FI_EOPNOTSUPP);
        CHECK(post(self, type, operation, form, at, operand, compare, result) < 0);
        return;
    }
    SAME(ask_valid(self, type, operation, form, &count), 0);
    CHECK(count >= NUM_ELEMENTS);
    choose(type, old, operand, compare);
    for (size_t i = 0; i < NUM_ELEMENTS; i++) {
        const size_t byte = i * type_bytes;
        store(type, wanted + byte,
              reference(type, operation, load(type, old + byte), load(type, operand + byte),
                        load(type, compare + byte)));
    }
    struct fid_ep *ep = self->main.ep;
    SAME(fi_write(ep, old, num_bytes, NULL, self->main.peers[1], at->address, at->key, NULL), 0);
    api_wait(self->main.tx, NULL);
    SAME(post(self, type, operation, form, at, operand, compare, result), 0);
    const struct fi_cq_tagged_entry entry = api_wait(self->main.tx, NULL);
    SAME(entry.flags, flags);
    CHECK(entry.op_context == result);
    if (form != PLAIN) check(type, operation, form, result, old, "the old values");
    SAME(fi_read(ep, found, num_bytes, NULL, self->main.peers[1], at->address, at->key, NULL), 0);
    api_wait(self->main.tx, NULL);
    check(type, operation, form, found, wanted, "the new values");
}

API_CASE(operations, 2)
{
    static _Alignas(32) char memory[NUM_ELEMENTS * ELEMENT_BYTES];
    struct fid_mr *region = NULL;
    const place at =
        open_place(self, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, &region);
    if (self->rank == 0)
        for (int type = 0; type < NUM_TYPES; type++)
            for (int operation = 0; operation < NUM_OPERATIONS; operation++)
                for (int turn = 0; turn < 2; turn++)
                    operate(self, type, operation, form_of(operation, turn), &at);
    api_barrier(self);
    if (region) SAME(fi_close(&region->fid), 0);
}

static void error_of(api *self, const place *at)
{
    uint64_t operand = 1, result = 77;
    SAME(fi_fetch_atomic(self->main.ep, &operand, 1, NULL, &result, NULL, self->main.peers[1],
                         at->address, at->key, FI_UINT64, FI_SUM, &result),
         0);
    const struct fi_cq_err_entry error = api_wait_error(self->main.tx);
    CHECK(error.op_context == &result && result == 77);
    CHECK(error.err == FI_EACCES || error.err == FI_EFAULT);
}

API_CASE(forbidden_atomics, 2)
{
    static uint64_t memory[512];
    struct fid_mr *region = NULL, *read_only = NULL;
    uint64_t operand[600] = {0}, result[600];
    size_t count = 0;
    const place at = open_place(self, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE,
                                &region),
                reading = open_place(self, memory, sizeof memory, FI_REMOTE_READ, &read_only);
    if (self->rank == 0) {
        struct fid_ep *ep = self->main.ep;
        const fi_addr_t peer = self->main.peers[1];
        SAME(fi_atomicvalid(ep, FI_UINT64, FI_SUM, &count), 0);
        SAME(fi_atomic(ep, operand, count + 1, NULL, peer, at.address, at.key, FI_UINT64, FI_SUM,
                       NULL),
             -FI_EINVAL);
        SAME(fi_atomic(ep, operand, 0, NULL, peer, at.address, at.key, FI_UINT64, FI_SUM, NULL),
             -FI_EINVAL);
        /* The number of bytes wraps around to little or nothing. */
        SAME(fi_atomic(ep, operand, SIZE_MAX / 8 + 1, NULL, peer, at.address, at.key, FI_UINT64,
                       FI_SUM, NULL),
             -FI_EINVAL);
        SAME(fi_atomic(ep, operand, SIZE_MAX / 8 + 2, NULL, peer, at.address, at.key, FI_UINT64,
                       FI_SUM, NULL),
             -FI_EINVAL);
        const struct fi_ioc parts[] = {{operand, SIZE_MAX}, {operand, 2}};
        SAME(fi_atomicv(ep, parts, NULL, 2, peer, at.address, at.key, FI_UINT64, FI_SUM, NULL),
             -FI_EINVAL);
        const struct fi_ioc one = {operand, 1};
        struct fi_ioc two = {result, 2};
        SAME(fi_fetch_atomicv(ep, &one, NULL, 1, &two, NULL, 1, peer, at.address, at.key, FI_UINT64,
                              FI_SUM, NULL),
             -FI_EINVAL);
        const struct fi_rma_ioc remote = {at.address, 2, at.key};
        const struct fi_msg_atomic message = {&one, NULL,      1,      peer, &remote,
                                              1,    FI_UINT64, FI_SUM, NULL, 0};
        SAME(fi_atomicmsg(ep, &message, 0), -FI_EINVAL);
        SAME(fi_atomic(ep, operand, 1, NULL, peer, at.address, at.key, FI_UINT64, FI_CSWAP, NULL),
             -FI_EINVAL);
        SAME(fi_atomic(ep, operand, 1, NULL, peer, at.address, at.key, FI_UINT64, (enum fi_op)99,
                       NULL),
             -FI_EINVAL);
        SAME(fi_atomic(ep, operand, 1, NULL, peer, at.address, at.key, (enum fi_datatype)99, FI_SUM,
                       NULL),
             -FI_EINVAL);
        error_of(self, &(place){at.address, at.key + 12345});
        error_of(self, &(place){at.address + sizeof memory - 4, at.key});
        error_of(self, &(place){at.address - 8, at.key});
        error_of(self, &(place){UINT64_MAX - 3, at.key});
        error_of(self, &reading);
        SAME(fi_cntr_readerr(self->main.read), 5);
        /* All goes on, to the last element. */
        operand[0] = 3;
        SAME(fi_inject_atomic(ep, operand, 1, peer, at.address + sizeof memory - 8, at.key,
                              FI_UINT64, FI_SUM),
             0);
        SAME(fi_cntr_wait(self->main.written, 1, -1), 0);
        api_check_silent(self->main.tx);
        SAME(fi_fetch_atomic(ep, NULL, count, NULL, result, NULL, peer, at.address, at.key,
                             FI_UINT64, FI_ATOMIC_READ, NULL),
             0);
        SAME(api_wait(self->main.tx, NULL).len, 8 * count);
    }
    api_barrier(self);
    if (self->rank == 1) {
        SAME(memory[511], 3);
        SAME(memory[0], 0);
        SAME(fi_close(&region->fid), 0);
        SAME(fi_close(&read_only->fid), 0);
    }
}

/* Of several processes, the owner among them: each sum is seen once. */
API_CASE(concurrent_atomics, 3)
{
    enum { NUM_STEPS = 400 };
    static uint64_t memory;
    static uint64_t seen[NUM_STEPS];
    const uint64_t one = 1;
    struct fid_mr *region = NULL;
    const place at =
        open_place(self, &memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, &region);
    for (uint32_t i = 0; i < NUM_STEPS; i++) {
        SAME(fi_fetch_atomic(self->main.ep, &one, 1, NULL, &seen[i], NULL, self->main.peers[1],
                             at.address, at.key, FI_UINT64, FI_SUM, NULL),
             0);
        if (i % 8 == 7)
            for (int each = 0; each < 8; each++) api_wait(self->main.tx, NULL);
    }
    for (uint32_t i = 1; i < NUM_STEPS; i++) CHECK(seen[i] > seen[i - 1]);
    api_barrier(self);
    if (self->rank == 1) {
        SAME(memory, self->num_processes * NUM_STEPS);
        SAME(fi_close(&region->fid), 0);
    }
}
