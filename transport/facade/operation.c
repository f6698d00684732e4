#include "transport/facade/messaging.h"
#include <stdlib.h>
#include <string.h>

#define SLAB_OPERATIONS 32u

static int grow(pw_messaging *messaging)
{
    pw_operation **slabs =
        realloc(messaging->slabs, (messaging->num_slabs + 1) * sizeof *messaging->slabs);
    if (!slabs) return PW_ERR_NOMEM;
    messaging->slabs = slabs;
    size_t bytes = sizeof(pw_operation) + (size_t)messaging->frame_bytes;
    pw_operation *operations = calloc(SLAB_OPERATIONS, bytes);
    if (!operations) return PW_ERR_NOMEM;
    messaging->slabs[messaging->num_slabs++] = operations;
    for (uint32_t i = 0; i < SLAB_OPERATIONS; i++) {
        pw_operation *operation = (pw_operation *)((uint8_t *)operations + i * bytes);
        operation->frame = (uint8_t *)(operation + 1);
        operation->next = messaging->free_list;
        messaging->free_list = operation;
    }
    return PW_OK;
}

pw_operation *pw_operation_new(pw_messaging *messaging, uint8_t kind)
{
    if (!messaging->free_list) pw_messaging_drop_given_up(messaging);
    if (!messaging->free_list && grow(messaging) < 0) return NULL;
    pw_operation *operation = messaging->free_list;
    messaging->free_list = operation->next;
    uint8_t *frame = operation->frame;
    memset(operation, 0, sizeof *operation);
    operation->frame = frame;
    operation->kind = kind;
    operation->is_owned = 1;
    return operation;
}

void pw_operation_recycle(pw_messaging *messaging, pw_operation *operation)
{
    free(operation->memory);
    operation->memory = NULL;
    operation->kind = 0;
    operation->next = messaging->free_list;
    messaging->free_list = operation;
}

void pw_list_append(pw_operation_list *list, pw_operation *operation)
{
    operation->next = NULL;
    operation->previous = list->tail;
    if (list->tail) list->tail->next = operation;
    else list->head = operation;
    list->tail = operation;
}

void pw_list_remove(pw_operation_list *list, pw_operation *operation)
{
    if (operation->previous) operation->previous->next = operation->next;
    else list->head = operation->next;
    if (operation->next) operation->next->previous = operation->previous;
    else list->tail = operation->previous;
    operation->next = operation->previous = NULL;
}
