/* Regions: what peers may read or write, each under a key of its own: one that no slot gives again
 * before 2^32 others, or, drawn, by chance alone (44 bits). Keys are hard to guess, for who has
 * some of them too, but no cryptography: the secret is a hash's seed. One NI, one thread at a time.
 */
#ifndef PW_NI_REGIONS_H
#define PW_NI_REGIONS_H
#include "ni/ni.h"

typedef struct {
    uint64_t address, num_bytes, key; /* 0: free; holds the buffer's id: slot + 1 */
    pw_scheduling scheduling;         /* of the transfer that serves the read */
    uint32_t peer, generation;
    int32_t next_free;
    uint32_t num_reads; /* under way */
    int32_t error;      /* of the first one that failed */
    uint8_t rights;     /* PW_REMOTE_* */
    bool is_spent;      /* the last read has come, or one has failed: no further one is admitted */
    bool stays;         /* any peer may use it, any number of times */
} pw_region;

typedef struct {
    pw_region *list;
    uint64_t secret;
    uint32_t capacity, num_open;
    int32_t first_free; /* -1: none */
    uint32_t id_bits;
    bool is_random; /* the rest of a key is drawn, and the whole is ciphered; else it is the slot's
                       generation, shuffled, above the id in clear */
    uint64_t seed, num_drawn;
} pw_regions;

void pw_regions_init(pw_regions *regions);
/* Keys of so many bits of id and the rest random, ciphered as one word under the secret. So all 64
 * bits of a key are random to who has not got it, and a guess must hit them all [MINI 3]. Before
 * the first region. */
void pw_regions_draw_keys(pw_regions *regions, uint32_t id_bits, uint64_t seed);
void pw_regions_destroy(pw_regions *regions);
/* A region for peer to read; no read has come, and it does not stay. NULL when the host has no
 * memory. */
pw_region *pw_regions_open(pw_regions *regions, uint32_t peer, uint64_t address,
                           uint64_t num_bytes);
/* The buffer's id that a key holds; of a forged key any. */
uint64_t pw_regions_id(const pw_regions *regions, uint64_t key);
/* The region of a key; NULL when there is none (any more). */
pw_region *pw_regions_find(const pw_regions *regions, uint64_t key);
void pw_regions_close(pw_regions *regions, pw_region *region);
/* A read of it is admitted; is_last: no further one is. */
void pw_region_begin_read(pw_region *region, bool is_last);
/* A read of it is over, PW_OK or PW_ERR_*. True: so is the region, which does not stay. */
bool pw_region_end_read(pw_region *region, int error);
/* May peer do this, PW_REMOTE_*, to these bytes of the region now? */
bool pw_region_admits(const pw_region *region, uint8_t right, uint32_t peer, uint64_t address,
                      uint64_t num_bytes);

#endif
