/* The arithmetic of atomic operations at the owner of the memory, by data type: of Unimem's atomic
 * service and of the provider's. Numbers are libfabric's. Stateless, thread-safe. */
#ifndef PW_NATIVE_ATOMICS_H
#define PW_NATIVE_ATOMICS_H
#include "native/types.h"

enum {
    PW_TYPE_INT8,
    PW_TYPE_UINT8,
    PW_TYPE_INT16,
    PW_TYPE_UINT16,
    PW_TYPE_INT32,
    PW_TYPE_UINT32,
    PW_TYPE_INT64,
    PW_TYPE_UINT64,
    PW_TYPE_FLOAT,
    PW_TYPE_DOUBLE,
    PW_TYPE_FLOAT_COMPLEX,
    PW_TYPE_DOUBLE_COMPLEX,
    PW_TYPE_LONG_DOUBLE,
    PW_TYPE_LONG_DOUBLE_COMPLEX,
};

enum {
    PW_ATOMIC_MIN,
    PW_ATOMIC_MAX,
    PW_ATOMIC_SUM,
    PW_ATOMIC_PROD,
    PW_ATOMIC_LOR,
    PW_ATOMIC_LAND,
    PW_ATOMIC_BOR,
    PW_ATOMIC_BAND,
    PW_ATOMIC_LXOR,
    PW_ATOMIC_BXOR,
    PW_ATOMIC_READ,
    PW_ATOMIC_WRITE,
    PW_ATOMIC_CSWAP,
    PW_ATOMIC_CSWAP_NE,
    PW_ATOMIC_CSWAP_LE,
    PW_ATOMIC_CSWAP_LT,
    PW_ATOMIC_CSWAP_GE,
    PW_ATOMIC_CSWAP_GT,
    PW_ATOMIC_MSWAP,
};

/* Bytes of one element, 0: there is no such type here. */
size_t pw_atomic_type_bytes(unsigned type);
/* Does the operation exist for the type? */
bool pw_atomic_is_valid(unsigned type, unsigned operation);
/* Needs it a third operand? */
bool pw_atomic_compares(unsigned operation);
/* values[i] becomes values[i] OP operands[i] (and compares[i]), for count elements of a valid type
 * and operation. Nothing needs to be aligned. */
void pw_atomic_apply(unsigned type, unsigned operation, void *values, const void *operands,
                     const void *compares, size_t count);
#endif
