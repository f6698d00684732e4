#include "node/node_state.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 16

int pw_handles_init(pw_handles *handles)
{
    *handles = (pw_handles){.num_slots = FIRST_SLOTS};
    handles->slots = calloc(FIRST_SLOTS, sizeof(pw_handle *));
    return handles->slots ? PW_OK : PW_ERR_NOMEM;
}

void pw_handles_destroy(pw_handles *handles)
{
    pw_pool_finish(&handles->pool);
    free(handles->slots);
    *handles = (pw_handles){0};
}

static uint32_t home(const pw_handles *handles, uint64_t id)
{
    return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (handles->num_slots - 1);
}

static uint32_t slot_of(const pw_handles *handles, uint64_t id)
{
    uint32_t slot = home(handles, id);
    while (handles->slots[slot] && handles->slots[slot]->id != id)
        slot = (slot + 1) & (handles->num_slots - 1);
    return slot;
}

static bool grow_table(pw_handles *handles)
{
    pw_handle **slots = calloc(2 * (size_t)handles->num_slots, sizeof(pw_handle *));
    if (!slots) return false;
    free(handles->slots);
    handles->slots = slots;
    handles->num_slots *= 2;
    for (pw_handle *handle = handles->under_way; handle; handle = handle->next)
        slots[slot_of(handles, handle->id)] = handle;
    return true;
}

pw_handle *pw_handles_take(pw_handles *handles)
{
    bool is_full = 2 * (handles->num_under_way + 1) > handles->num_slots;
    if (is_full && !grow_table(handles)) return NULL;
    pw_handle *handle = pw_pool_take(&handles->pool, sizeof *handle);
    if (handle) *handle = (pw_handle){0};
    return handle;
}

void pw_handles_give(pw_handles *handles, pw_handle *handle)
{
    pw_pool_give(&handles->pool, handle);
}

void pw_handles_begin(pw_handles *handles, pw_handle *handle, uint64_t id)
{
    handle->id = id;
    handle->previous = NULL;
    handle->next = handles->under_way;
    if (handles->under_way) handles->under_way->previous = handle;
    handles->under_way = handle;
    handles->num_under_way++;
    handles->slots[slot_of(handles, id)] = handle;
}

/* Whatever the empty slot keeps from being found moves into it. */
static void close_gap(pw_handles *handles, uint32_t gap)
{
    uint32_t mask = handles->num_slots - 1;
    for (uint32_t slot = (gap + 1) & mask; handles->slots[slot]; slot = (slot + 1) & mask) {
        uint32_t from = home(handles, handles->slots[slot]->id);
        if (((slot - from) & mask) < ((slot - gap) & mask)) continue;
        handles->slots[gap] = handles->slots[slot];
        handles->slots[slot] = NULL;
        gap = slot;
    }
}

pw_handle *pw_handles_end(pw_handles *handles, uint64_t id)
{
    uint32_t slot = slot_of(handles, id);
    pw_handle *handle = handles->slots[slot];
    if (!handle) return NULL;
    handles->slots[slot] = NULL;
    close_gap(handles, slot);
    if (handle->previous) handle->previous->next = handle->next;
    else handles->under_way = handle->next;
    if (handle->next) handle->next->previous = handle->previous;
    handle->next = handle->previous = NULL;
    handles->num_under_way--;
    return handle;
}
