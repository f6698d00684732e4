/* Messages in pieces, for memory strategies that say so (pw_piece_ops): each piece is made ready,
 * exposed, read and given back by itself, so that the work on one overlaps the way of another.
 *
 *   sender                          receiver
 *   the host's rendezvous message ->          names the message instead of an address
 *                               <- OPEN       how much is wanted, by whom
 *   PIECE (address, key)        ->            as each is ready; the NI reads it
 *
 * The work is the library's progress thread's, on a core of its own: it takes its turn in the
 * calendar `library` and not on the clock of the CPU. So nothing depends on when the program comes
 * by; a run with measured compute differs from a real library without such a thread there. */
#ifndef PW_NODE_PIECES_H
#define PW_NODE_PIECES_H
#include "transport/node/node.h"

/* The message begins; handle has address and key for the host's rendezvous message then, and is
 * done when the peer has read all that it wants. */
int pw_pieces_offer(pw_node *node, pw_handle *handle, uint64_t address);
/* Is this address in a rendezvous message the name of a message in pieces? */
bool pw_pieces_are_offered(uint64_t source_address);
/* Read what handle says of the message, matched at at_ns. */
int pw_pieces_accept(pw_node *node, pw_handle *handle, uint64_t offered, int64_t at_ns);
/* A piece's event. */
int pw_pieces_finish(pw_node *node, pw_handle *piece, const pw_host_event *event);
/* A message between nodes. */
int pw_pieces_message(pw_node *node, uint32_t source, const uint8_t *frame, uint32_t frame_bytes);
void pw_pieces_destroy(pw_node *node);
#endif
