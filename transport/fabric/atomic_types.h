/* The arithmetic of atomic operations, by data type. Stateless, thread-safe. */
#ifndef PW_FABRIC_ATOMIC_TYPES_H
#define PW_FABRIC_ATOMIC_TYPES_H
#include "transport/fabric/objects.h"

/* Bytes of one element, 0: there is no such type here. */
size_t pw_atomic_type_bytes(enum fi_datatype type);
/* Does the operation exist for the type? */
bool pw_atomic_is_valid(enum fi_datatype type, enum fi_op operation);
/* Needs it a third operand? */
bool pw_atomic_compares(enum fi_op operation);
/* values[i] becomes values[i] OP operands[i] (and compares[i]), for count elements of a valid type
 * and operation. Nothing needs to be aligned. */
void pw_atomic_apply(enum fi_datatype type, enum fi_op operation, void *values,
                     const void *operands, const void *compares, size_t count);
#endif
