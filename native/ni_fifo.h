/* NI FIFO: the log of faulting packets at the destination that the driver's tasklet reads
 * [PSI 3.2.3]. An entry equal to the last one is not pushed again, nor, in a FIFO that remembers
 * two blocks [PSI 5.2 (3)], one equal to the last of the other block; a full FIFO loses the entry.
 * An entry leaves when its second word is read, at a virtual time: until then it takes room.
 *
 * Blocks of different senders interleave in time, but come here one after the other: what was last
 * at a packet's time is looked up among the latest packets. So the block that comes second logs its
 * page again after each packet of the first one; the first one's duplicates are not seen. Not
 * thread-safe. */
#ifndef PW_NATIVE_NI_FIFO_H
#define PW_NATIVE_NI_FIFO_H
#include "native/types.h"

/* The 128 bits of an entry, low word first: source node 22, transaction id 14, sequence number 14,
 * ack code 2, valid 1; then PDID 16, faulting page number 28 + 4 bits process index, and the page's
 * upper bits, which hosts with 48-bit addresses need. */
typedef struct {
    uint64_t low, high;
} pw_fifo_entry;
_Static_assert(sizeof(pw_fifo_entry) == 16, "NI FIFO entry is 128 bit wide");

typedef struct {
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    uint64_t page;
    uint8_t code;
} pw_fifo_fields;

pw_fifo_entry pw_fifo_pack(const pw_fifo_fields *fields);
pw_fifo_fields pw_fifo_unpack(pw_fifo_entry entry);

#define PW_NI_FIFO_SEEN 128 /* packets of two blocks */

typedef struct {
    pw_fifo_entry entry;
    pw_time pushed_ns, read_ns; /* read_ns: when it leaves; of the first num_read entries */
} pw_fifo_slot;

typedef struct {
    pw_time at_ns;
    pw_time latest_ns; /* of this one and all that came before it */
    pw_fifo_entry entry;
} pw_fifo_seen;

typedef struct {
    pw_fifo_slot *slots; /* ring of `capacity` */
    uint32_t capacity;   /* a power of two, as many as there ever were; 0: nothing was pushed yet */
    uint32_t depth;      /* entries at most, <= PW_NI_FIFO_DEPTH */
    uint32_t remembers;  /* blocks whose last entry it knows: 1 or 2 */
    uint32_t head, num_entries, num_read;
    pw_fifo_seen *seen; /* ring of PW_NI_FIFO_SEEN: pushed or equal to the last */
    uint32_t next_seen;
    pw_time latest_ns; /* of all that were seen */
    bool half_read;    /* the low word of the next entry was read, the high one was not */
} pw_ni_fifo;

/* NO_MEMORY: of the host, for more entries than there ever were. */
enum pw_fifo_outcome { PW_FIFO_PUSHED, PW_FIFO_FILTERED, PW_FIFO_LOST, PW_FIFO_NO_MEMORY };

void pw_ni_fifo_init(pw_ni_fifo *fifo, uint32_t depth, uint32_t remembers);
void pw_ni_fifo_finish(pw_ni_fifo *fifo);
enum pw_fifo_outcome pw_ni_fifo_push(pw_ni_fifo *fifo, pw_time at_ns, pw_fifo_entry entry);
/* Register interface: two 64-bit reads take an entry, low word first; 0 when there is none. A
 * half-read entry stays. */
uint64_t pw_ni_fifo_read_word(pw_ni_fifo *fifo, pw_time at_ns);
/* When the entry was pushed that is read next; PW_NEVER when there is none. */
pw_time pw_ni_fifo_next_ns(const pw_ni_fifo *fifo);
/* That entry. */
pw_fifo_entry pw_ni_fifo_peek(const pw_ni_fifo *fifo);
/* What was to be read after at_ns is read by_ns later. */
void pw_ni_fifo_delay(pw_ni_fifo *fifo, pw_time at_ns, pw_time by_ns);
#endif
