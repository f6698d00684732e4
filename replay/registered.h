/* Memory of a rank that its peers may use: which key has what an operation wants? */
#ifndef PW_REPLAY_REGISTERED_H
#define PW_REPLAY_REGISTERED_H
#include "native/types.h"

typedef struct {
    uint64_t number, address, num_bytes, key;
    uint64_t recorded_key; /* 0: the trace does not say */
    uint32_t rights;       /* PW_REMOTE_* */
} pw_registration;

/* Zero: there is none. */
typedef struct {
    pw_registration *all; /* in the order of registering */
    uint32_t count, capacity;
} pw_registered;

/* Memory of a peer's that an operation wants. */
typedef struct {
    uint64_t key; /* that it had in the recorded run; 0: the trace does not say */
    uint64_t address, num_bytes;
    uint32_t right; /* PW_REMOTE_* */
} pw_program_wish;

void pw_registered_finish(pw_registered *registered);
/* PW_ERR_NOMEM. */
int pw_registered_add(pw_registered *registered, const pw_registration *made);
/* That of the number goes, as *out says; false: there is none. */
bool pw_registered_remove(pw_registered *registered, uint64_t number, pw_registration *out);
/* The key of what had the wish's key; where that is not known, of what was registered last of all
 * that hold it and give the right. 0: none. */
uint64_t pw_registered_key(const pw_registered *registered, const pw_program_wish *wish);
#endif
