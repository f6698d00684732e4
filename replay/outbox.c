#include "replay/outbox.h"
#include <stdlib.h>
#include <string.h>

#include "native/status.h"

#define FIRST_CAPACITY ((uint64_t)1 << 16)

static uint64_t filled_up(uint32_t num_bytes) { return ((uint64_t)num_bytes + 7) & ~UINT64_C(7); }

void pw_outbox_finish(pw_outbox *outbox) { free(outbox->bytes); }

static int make_room(pw_outbox *outbox, uint64_t num_bytes)
{
    uint64_t capacity = outbox->capacity ? outbox->capacity : FIRST_CAPACITY;
    while (capacity < outbox->num_bytes + num_bytes) capacity *= 2;
    if (capacity == outbox->capacity) return PW_OK;
    uint8_t *bytes = realloc(outbox->bytes, capacity);
    if (!bytes) return PW_ERR_NOMEM;
    outbox->bytes = bytes;
    outbox->capacity = capacity;
    return PW_OK;
}

int pw_outbox_put(pw_outbox *outbox, const pw_letter *letter, const void *what)
{
    const uint64_t wanted = sizeof *letter + filled_up(letter->num_bytes);
    const int code = make_room(outbox, wanted);
    if (code < 0) return code;
    uint8_t *place = outbox->bytes + outbox->num_bytes;
    memset(place + wanted - sizeof(uint64_t), 0, sizeof(uint64_t));
    memcpy(place, letter, sizeof *letter);
    memcpy(place + sizeof *letter, what, letter->num_bytes);
    outbox->num_bytes += wanted;
    return PW_OK;
}

int pw_letter_next(const uint8_t **bytes, uint64_t *num_bytes, pw_letter *letter, const void **what)
{
    if (*num_bytes == 0) return 0;
    if (*num_bytes < sizeof *letter) return PW_ERR_MALFORMED;
    memcpy(letter, *bytes, sizeof *letter);
    const uint64_t taken = sizeof *letter + filled_up(letter->num_bytes);
    if (*num_bytes < taken) return PW_ERR_MALFORMED;
    *what = *bytes + sizeof *letter;
    *bytes += taken;
    *num_bytes -= taken;
    return 1;
}
