/* Arrays that double when they are full. */
#ifndef PW_NATIVE_ARRAY_H
#define PW_NATIVE_ARRAY_H
#include "native/types.h"
#include <stdlib.h>
#include <string.h>

/* Room for one element more: of an array that is full twice as many, of one without memory `first`.
 * array: where the pointer to the elements is. PW_ERR_NOMEM, and the array is as it was. */
static inline int pw_array_make_room(void *array, uint32_t num_used, uint32_t *capacity,
                                     size_t element_bytes, uint32_t first)
{
    if (num_used < *capacity) return PW_OK;
    if (*capacity > UINT32_MAX / 2) return PW_ERR_NOMEM;
    const uint32_t wanted = *capacity ? 2 * *capacity : first;
    void *elements;
    memcpy(&elements, array, sizeof elements); /* whatever it points to */
    elements = reallocarray(elements, wanted, element_bytes);
    if (!elements) return PW_ERR_NOMEM;
    memcpy(array, &elements, sizeof elements);
    *capacity = wanted;
    return PW_OK;
}

#define PW_ARRAY_MAKE_ROOM(array, num_used, capacity, first) \
    pw_array_make_room(&(array), num_used, &(capacity), sizeof *(array), first)

#endif
