/* Counts of MPI calls by name. */
#include "node/report/call_counts.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static pw_call_counts counts;

static void test_a_name_has_one_index_and_its_own_counts(void)
{
    int send = pw_call_index(&counts, "Send"), receive = pw_call_index(&counts, "Recv");
    assert(send == 0 && receive == 1 && pw_call_index(&counts, "Send") == send);
    pw_call_begin(&counts, (uint32_t)receive);
    pw_call_begin(&counts, (uint32_t)send);
    pw_call_begin(&counts, (uint32_t)send);
    counts.call[counts.current].bytes += 10;
    assert(counts.num_calls == 2 && counts.current == (uint32_t)send);
    assert(counts.call[send].calls == 2 && counts.call[send].bytes == 10);
    assert(counts.call[receive].calls == 1 && counts.call[receive].bytes == 0);
    assert(strcmp(counts.call[receive].name, "Recv") == 0);
}

static void test_names_that_do_not_fit_are_refused(void)
{
    char name[PW_CALL_NAME_BYTES + 1] = {0};
    memset(name, 'x', PW_CALL_NAME_BYTES);
    assert(pw_call_index(&counts, name) == PW_ERR_INVALID);
    name[PW_CALL_NAME_BYTES - 1] = 0;
    assert(pw_call_index(&counts, name) == 2 && strcmp(counts.call[2].name, name) == 0);
    assert(pw_call_index(&counts, "") == PW_ERR_INVALID);
    assert(pw_call_index(&counts, NULL) == PW_ERR_INVALID);
    for (int i = 3; i < PW_CALLS_MAX; i++) {
        snprintf(name, sizeof name, "call %d", i);
        assert(pw_call_index(&counts, name) == i);
    }
    assert(pw_call_index(&counts, "one more") == PW_ERR_FULL);
    assert(pw_call_index(&counts, "Recv") == 1);
}

int main(void)
{
    test_a_name_has_one_index_and_its_own_counts();
    test_names_that_do_not_fit_are_refused();
    return 0;
}
