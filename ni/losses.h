/* Frames that could not be read: what they said will not come, so what waited for it ends. One NI,
 * one thread at a time. */
#ifndef PW_NI_LOSSES_H
#define PW_NI_LOSSES_H
#include "ni/ni.h"

/* A frame between this node and the peer was dropped, at either end. Which one nobody can tell:
 * each attempt under way there is taken for lost, and its timeout decides; without one, or after as
 * many as there are sequence numbers, the transfer ends with PW_ERR_UNRECOVERABLE. A read of which
 * nothing has come ends with PW_ERR_MALFORMED. */
void pw_losses_note(pw_ni *ni, uint32_t peer);

#endif
