#include "transport/fabric/atomic_types.h"
#include <complex.h>
#include <string.h>

/* One element: loaded, changed, stored. BODY sees value, operand and compare, and leaves the new
 * value in `value`. */
#define FOR_EACH(TYPE, BODY)                                                               \
    do {                                                                                   \
        for (size_t i = 0; i < count; i++) {                                               \
            TYPE value, operand, compare = 0;                                              \
            memcpy(&value, (char *)values + i * sizeof value, sizeof value);               \
            memcpy(&operand, (const char *)operands + i * sizeof value, sizeof value);     \
            if (compares)                                                                  \
                memcpy(&compare, (const char *)compares + i * sizeof value, sizeof value); \
            (void)compare;                                                                 \
            BODY;                                                                          \
            memcpy((char *)values + i * sizeof value, &value, sizeof value);               \
        }                                                                                  \
    } while (0)

/* Integers are added as unsigned ones of 64 bits, WIDE: what leaves the type wraps around. */
#define ANY_TYPE_CASES(TYPE, WIDE)                                                        \
    case FI_SUM: FOR_EACH(TYPE, value = (TYPE)((WIDE)value + (WIDE)operand)); return;     \
    case FI_PROD: FOR_EACH(TYPE, value = (TYPE)((WIDE)value * (WIDE)operand)); return;    \
    case FI_LOR: FOR_EACH(TYPE, value = (TYPE)(value != 0 || operand != 0)); return;      \
    case FI_LAND: FOR_EACH(TYPE, value = (TYPE)(value != 0 && operand != 0)); return;     \
    case FI_LXOR: FOR_EACH(TYPE, value = (TYPE)((value != 0) != (operand != 0))); return; \
    case FI_ATOMIC_READ: return;                                                          \
    case FI_ATOMIC_WRITE: FOR_EACH(TYPE, value = operand); return;                        \
    case FI_CSWAP: FOR_EACH(TYPE, if (compare == value) value = operand); return;         \
    case FI_CSWAP_NE: FOR_EACH(TYPE, if (compare != value) value = operand); return;

#define ORDERED_CASES(TYPE)                                                          \
    case FI_MIN: FOR_EACH(TYPE, value = operand < value ? operand : value); return;  \
    case FI_MAX: FOR_EACH(TYPE, value = operand > value ? operand : value); return;  \
    case FI_CSWAP_LE: FOR_EACH(TYPE, if (compare <= value) value = operand); return; \
    case FI_CSWAP_LT: FOR_EACH(TYPE, if (compare < value) value = operand); return;  \
    case FI_CSWAP_GE: FOR_EACH(TYPE, if (compare >= value) value = operand); return; \
    case FI_CSWAP_GT: FOR_EACH(TYPE, if (compare > value) value = operand); return;

#define BITWISE_CASES(TYPE)                                                             \
    case FI_BOR: FOR_EACH(TYPE, value = (TYPE)(value | operand)); return;               \
    case FI_BAND: FOR_EACH(TYPE, value = (TYPE)(value & operand)); return;              \
    case FI_BXOR: FOR_EACH(TYPE, value = (TYPE)(value ^ operand)); return;              \
    case FI_MSWAP:                                                                      \
        FOR_EACH(TYPE, value = (TYPE)((operand & compare) | (value & (TYPE)~compare))); \
        return;

#define COMPLEX(NAME, TYPE)                                                    \
    static void NAME(enum fi_op operation, void *values, const void *operands, \
                     const void *compares, size_t count)                       \
    {                                                                          \
        switch (operation) {                                                   \
            ANY_TYPE_CASES(TYPE, TYPE)                                         \
        default: return;                                                       \
        }                                                                      \
    }
#define REAL(NAME, TYPE)                                                       \
    static void NAME(enum fi_op operation, void *values, const void *operands, \
                     const void *compares, size_t count)                       \
    {                                                                          \
        switch (operation) {                                                   \
            ANY_TYPE_CASES(TYPE, TYPE)                                         \
            ORDERED_CASES(TYPE)                                                \
        default: return;                                                       \
        }                                                                      \
    }
#define INTEGER(NAME, TYPE)                                                    \
    static void NAME(enum fi_op operation, void *values, const void *operands, \
                     const void *compares, size_t count)                       \
    {                                                                          \
        switch (operation) {                                                   \
            ANY_TYPE_CASES(TYPE, uint64_t)                                     \
            ORDERED_CASES(TYPE)                                                \
            BITWISE_CASES(TYPE)                                                \
        default: return;                                                       \
        }                                                                      \
    }

INTEGER(apply_int8, int8_t)
INTEGER(apply_uint8, uint8_t)
INTEGER(apply_int16, int16_t)
INTEGER(apply_uint16, uint16_t)
INTEGER(apply_int32, int32_t)
INTEGER(apply_uint32, uint32_t)
INTEGER(apply_int64, int64_t)
INTEGER(apply_uint64, uint64_t)
REAL(apply_float, float)
REAL(apply_double, double)
REAL(apply_long_double, long double)
COMPLEX(apply_float_complex, float complex)
COMPLEX(apply_double_complex, double complex)
COMPLEX(apply_long_double_complex, long double complex)

typedef enum { INTEGER_TYPE, REAL_TYPE, COMPLEX_TYPE } class_of_type;

static const struct {
    size_t num_bytes;
    class_of_type class;
    void (*apply)(enum fi_op operation, void *values, const void *operands, const void *compares,
                  size_t count);
} types[] = {
    [FI_INT8] = {sizeof(int8_t), INTEGER_TYPE, apply_int8},
    [FI_UINT8] = {sizeof(uint8_t), INTEGER_TYPE, apply_uint8},
    [FI_INT16] = {sizeof(int16_t), INTEGER_TYPE, apply_int16},
    [FI_UINT16] = {sizeof(uint16_t), INTEGER_TYPE, apply_uint16},
    [FI_INT32] = {sizeof(int32_t), INTEGER_TYPE, apply_int32},
    [FI_UINT32] = {sizeof(uint32_t), INTEGER_TYPE, apply_uint32},
    [FI_INT64] = {sizeof(int64_t), INTEGER_TYPE, apply_int64},
    [FI_UINT64] = {sizeof(uint64_t), INTEGER_TYPE, apply_uint64},
    [FI_FLOAT] = {sizeof(float), REAL_TYPE, apply_float},
    [FI_DOUBLE] = {sizeof(double), REAL_TYPE, apply_double},
    [FI_FLOAT_COMPLEX] = {sizeof(float complex), COMPLEX_TYPE, apply_float_complex},
    [FI_DOUBLE_COMPLEX] = {sizeof(double complex), COMPLEX_TYPE, apply_double_complex},
    [FI_LONG_DOUBLE] = {sizeof(long double), REAL_TYPE, apply_long_double},
    [FI_LONG_DOUBLE_COMPLEX] = {sizeof(long double complex), COMPLEX_TYPE,
                                apply_long_double_complex},
};

size_t pw_atomic_type_bytes(enum fi_datatype type)
{
    return (size_t)type < sizeof types / sizeof *types ? types[type].num_bytes : 0;
}

bool pw_atomic_compares(enum fi_op operation)
{
    return operation >= FI_CSWAP && operation <= FI_MSWAP;
}

bool pw_atomic_is_valid(enum fi_datatype type, enum fi_op operation)
{
    if (!pw_atomic_type_bytes(type)) return false;
    const class_of_type class = types[type].class;
    switch (operation) {
    case FI_MIN:
    case FI_MAX:
    case FI_CSWAP_LE:
    case FI_CSWAP_LT:
    case FI_CSWAP_GE:
    case FI_CSWAP_GT: return class != COMPLEX_TYPE;
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
    case FI_MSWAP: return class == INTEGER_TYPE;
    case FI_SUM:
    case FI_PROD:
    case FI_LOR:
    case FI_LAND:
    case FI_LXOR:
    case FI_ATOMIC_READ:
    case FI_ATOMIC_WRITE:
    case FI_CSWAP:
    case FI_CSWAP_NE: return true;
    default: return false;
    }
}

void pw_atomic_apply(enum fi_datatype type, enum fi_op operation, void *values,
                     const void *operands, const void *compares, size_t count)
{
    types[type].apply(operation, values, operands, compares, count);
}
