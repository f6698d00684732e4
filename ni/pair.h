/* Pairs of blocks whose packets share the link in turn (ni.interleave = packet). Assumed: blocks of
 * a transfer that the R5 issues together interleave; one that it issues alone, when an
 * acknowledgement has come, or again, does not. No pair either where impairments are on, where a
 * block was not read to its end, or where its acknowledgement was foreseen. One NI, one thread at a
 * time. */
#ifndef PW_NI_PAIR_H
#define PW_NI_PAIR_H
#include "ni/state.h"

/* pair_out.c: the source */
/* The action is about to be done: does the next one start the block that goes with this one's? */
void pw_pair_expect(pw_ni *ni, const pw_action *action, const pw_action *next);
/* The frame is sealed, and all of the block is in it. The pair's second one: mark the first. When
 * the last packet arrives at the earliest. */
pw_time pw_pair_join(pw_ni *ni, const pw_transaction *transaction, pw_block_frame *frame);

/* pair.c: the destination */
/* Do these two sane blocks, the first one marked, share the link? */
bool pw_pair_is_sane(const pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second);
void pw_destination_pair(pw_ni *ni, const pw_block_frame *first, const pw_block_frame *second);

#endif
