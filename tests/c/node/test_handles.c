/* The handles of transfers against a plain list, with ids that meet in the table. */
#include "node/node_state.h"
#include <assert.h>

#define KEPT 600 /* more than the first table and several chunks hold */
#define STEPS 200000

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static bool is_listed(const pw_handles *handles, const pw_handle *wanted)
{
    uint32_t length = 0;
    bool found = false;
    for (const pw_handle *each = handles->under_way; each; each = each->next, length++) {
        found |= each == wanted;
        assert(!each->next || each->next->previous == each);
    }
    assert(length == handles->num_under_way);
    return found;
}

static void test_each_id_finds_its_handle_until_it_ends(void)
{
    pw_handles handles;
    pw_handle *under_way[KEPT] = {NULL}; /* by id: keys of regions and streams, both dense */
    assert(pw_handles_init(&handles) == PW_OK);
    for (int step = 0; step < STEPS; step++) {
        uint32_t idx = (uint32_t)(draw() % KEPT);
        uint64_t id = idx % 2 ? (uint64_t)idx << 32 | 1 : UINT64_C(0x80000000) + idx;
        if (!under_way[idx]) {
            pw_handle *handle = pw_handles_take(&handles);
            assert(handle && !handle->done && handle->num_bytes == 0);
            assert(pw_handles_end(&handles, id) == NULL);
            handle->num_bytes = id;
            pw_handles_begin(&handles, handle, id);
            assert(handles.under_way == handle);
            under_way[idx] = handle;
        } else {
            pw_handle *handle = pw_handles_end(&handles, id);
            assert(handle == under_way[idx] && handle->num_bytes == id);
            if (step % 64 == 0) assert(!is_listed(&handles, handle));
            pw_handles_give(&handles, handle);
            under_way[idx] = NULL;
        }
    }
    for (int idx = 0; idx < KEPT; idx++)
        if (under_way[idx]) assert(is_listed(&handles, under_way[idx]));
    pw_handles_destroy(&handles);
}

int main(void)
{
    test_each_id_finds_its_handle_until_it_ends();
    return 0;
}
