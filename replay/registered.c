#include "replay/registered.h"
#include <stdlib.h>
#include <string.h>

#include "native/array.h"
#include "native/status.h"

#define FIRST_CAPACITY 16

void pw_registered_finish(pw_registered *registered) { free(registered->all); }

int pw_registered_add(pw_registered *registered, const pw_registration *made)
{
    const int code = PW_ARRAY_MAKE_ROOM(registered->all, registered->count, registered->capacity,
                                        FIRST_CAPACITY);
    if (code < 0) return code;
    registered->all[registered->count++] = *made;
    return PW_OK;
}

bool pw_registered_remove(pw_registered *registered, uint64_t number, pw_registration *out)
{
    pw_registration *all = registered->all;
    uint32_t place = 0;
    while (place < registered->count && all[place].number != number) place++;
    if (place == registered->count) return false;
    *out = all[place];
    memmove(&all[place], &all[place + 1], (--registered->count - place) * sizeof *all);
    return true;
}

static bool suits(const pw_registration *registration, const pw_program_wish *wish)
{
    const uint64_t offset = wish->address - registration->address;
    if (wish->key && registration->recorded_key) return wish->key == registration->recorded_key;
    return registration->rights & wish->right && offset <= registration->num_bytes &&
           wish->num_bytes <= registration->num_bytes - offset;
}

uint64_t pw_registered_key(const pw_registered *registered, const pw_program_wish *wish)
{
    for (uint32_t i = registered->count; i-- > 0;)
        if (suits(&registered->all[i], wish)) return registered->all[i].key;
    return 0;
}
