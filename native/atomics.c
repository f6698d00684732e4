#include "native/atomics.h"
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
#define ANY_TYPE_CASES(TYPE, WIDE)                                                               \
    case PW_ATOMIC_SUM: FOR_EACH(TYPE, value = (TYPE)((WIDE)value + (WIDE)operand)); return;     \
    case PW_ATOMIC_PROD: FOR_EACH(TYPE, value = (TYPE)((WIDE)value * (WIDE)operand)); return;    \
    case PW_ATOMIC_LOR: FOR_EACH(TYPE, value = (TYPE)(value != 0 || operand != 0)); return;      \
    case PW_ATOMIC_LAND: FOR_EACH(TYPE, value = (TYPE)(value != 0 && operand != 0)); return;     \
    case PW_ATOMIC_LXOR: FOR_EACH(TYPE, value = (TYPE)((value != 0) != (operand != 0))); return; \
    case PW_ATOMIC_READ: return;                                                                 \
    case PW_ATOMIC_WRITE: FOR_EACH(TYPE, value = operand); return;                               \
    case PW_ATOMIC_CSWAP: FOR_EACH(TYPE, if (compare == value) value = operand); return;         \
    case PW_ATOMIC_CSWAP_NE: FOR_EACH(TYPE, if (compare != value) value = operand); return;

#define ORDERED_CASES(TYPE)                                                                 \
    case PW_ATOMIC_MIN: FOR_EACH(TYPE, value = operand < value ? operand : value); return;  \
    case PW_ATOMIC_MAX: FOR_EACH(TYPE, value = operand > value ? operand : value); return;  \
    case PW_ATOMIC_CSWAP_LE: FOR_EACH(TYPE, if (compare <= value) value = operand); return; \
    case PW_ATOMIC_CSWAP_LT: FOR_EACH(TYPE, if (compare < value) value = operand); return;  \
    case PW_ATOMIC_CSWAP_GE: FOR_EACH(TYPE, if (compare >= value) value = operand); return; \
    case PW_ATOMIC_CSWAP_GT: FOR_EACH(TYPE, if (compare > value) value = operand); return;

#define BITWISE_CASES(TYPE)                                                             \
    case PW_ATOMIC_BOR: FOR_EACH(TYPE, value = (TYPE)(value | operand)); return;        \
    case PW_ATOMIC_BAND: FOR_EACH(TYPE, value = (TYPE)(value & operand)); return;       \
    case PW_ATOMIC_BXOR: FOR_EACH(TYPE, value = (TYPE)(value ^ operand)); return;       \
    case PW_ATOMIC_MSWAP:                                                               \
        FOR_EACH(TYPE, value = (TYPE)((operand & compare) | (value & (TYPE)~compare))); \
        return;

#define APPLY(NAME, CASES)                                                                         \
    static void NAME(unsigned operation, void *values, const void *operands, const void *compares, \
                     size_t count)                                                                 \
    {                                                                                              \
        switch (operation) {                                                                       \
            CASES                                                                                  \
        default: return;                                                                           \
        }                                                                                          \
    }
#define COMPLEX(NAME, TYPE) APPLY(NAME, ANY_TYPE_CASES(TYPE, TYPE))
#define REAL(NAME, TYPE) APPLY(NAME, ANY_TYPE_CASES(TYPE, TYPE) ORDERED_CASES(TYPE))
#define INTEGER(NAME, TYPE) \
    APPLY(NAME, ANY_TYPE_CASES(TYPE, uint64_t) ORDERED_CASES(TYPE) BITWISE_CASES(TYPE))

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

/* Each has the operations of those before it, and more. */
typedef enum { COMPLEX_TYPE, REAL_TYPE, INTEGER_TYPE } class_of_type;

static const struct {
    size_t num_bytes;
    class_of_type class;
    void (*apply)(unsigned operation, void *values, const void *operands, const void *compares,
                  size_t count);
} types[] = {
    [PW_TYPE_INT8] = {sizeof(int8_t), INTEGER_TYPE, apply_int8},
    [PW_TYPE_UINT8] = {sizeof(uint8_t), INTEGER_TYPE, apply_uint8},
    [PW_TYPE_INT16] = {sizeof(int16_t), INTEGER_TYPE, apply_int16},
    [PW_TYPE_UINT16] = {sizeof(uint16_t), INTEGER_TYPE, apply_uint16},
    [PW_TYPE_INT32] = {sizeof(int32_t), INTEGER_TYPE, apply_int32},
    [PW_TYPE_UINT32] = {sizeof(uint32_t), INTEGER_TYPE, apply_uint32},
    [PW_TYPE_INT64] = {sizeof(int64_t), INTEGER_TYPE, apply_int64},
    [PW_TYPE_UINT64] = {sizeof(uint64_t), INTEGER_TYPE, apply_uint64},
    [PW_TYPE_FLOAT] = {sizeof(float), REAL_TYPE, apply_float},
    [PW_TYPE_DOUBLE] = {sizeof(double), REAL_TYPE, apply_double},
    [PW_TYPE_FLOAT_COMPLEX] = {sizeof(float complex), COMPLEX_TYPE, apply_float_complex},
    [PW_TYPE_DOUBLE_COMPLEX] = {sizeof(double complex), COMPLEX_TYPE, apply_double_complex},
    [PW_TYPE_LONG_DOUBLE] = {sizeof(long double), REAL_TYPE, apply_long_double},
    [PW_TYPE_LONG_DOUBLE_COMPLEX] = {sizeof(long double complex), COMPLEX_TYPE,
                                     apply_long_double_complex},
};

size_t pw_atomic_type_bytes(unsigned type)
{
    return (size_t)type < sizeof types / sizeof *types ? types[type].num_bytes : 0;
}

bool pw_atomic_compares(unsigned operation)
{
    return operation >= PW_ATOMIC_CSWAP && operation <= PW_ATOMIC_MSWAP;
}

bool pw_atomic_is_valid(unsigned type, unsigned operation)
{
    if (!pw_atomic_type_bytes(type)) return false;
    switch (operation) {
    case PW_ATOMIC_MIN:
    case PW_ATOMIC_MAX:
    case PW_ATOMIC_CSWAP_LE:
    case PW_ATOMIC_CSWAP_LT:
    case PW_ATOMIC_CSWAP_GE:
    case PW_ATOMIC_CSWAP_GT: return types[type].class >= REAL_TYPE;
    case PW_ATOMIC_BOR:
    case PW_ATOMIC_BAND:
    case PW_ATOMIC_BXOR:
    case PW_ATOMIC_MSWAP: return types[type].class == INTEGER_TYPE;
    default: return operation <= PW_ATOMIC_MSWAP;
    }
}

void pw_atomic_apply(unsigned type, unsigned operation, void *values, const void *operands,
                     const void *compares, size_t count)
{
    types[type].apply(operation, values, operands, compares, count);
}
