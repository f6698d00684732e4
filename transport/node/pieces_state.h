/* What a node keeps of its messages in pieces: see pieces.h. */
#ifndef PW_NODE_PIECES_STATE_H
#define PW_NODE_PIECES_STATE_H
#include "transport/node/node.h"

#define PW_PIECES_AHEAD 4 /* pieces of a message that are ready or under way at a time */

typedef struct pw_piece_message pw_piece_message;
struct pw_piece_message {
    pw_handle *handle;
    uint64_t id;      /* of its name to the peer */
    uint64_t peer_id; /* sender: the receiver's name for it */
    uint64_t address, wanted_bytes, begun_bytes, over_bytes;
    int64_t cause_ns; /* of the next piece */
    int64_t open_ns;  /* sender: the peer wants it since then */
    int64_t end_ns;
    uint32_t peer, num_under_way;
    uint32_t first_ready, num_ready;         /* rings */
    uint32_t first_announced, num_announced; /* receiver */
    int error;
    bool is_sender, is_open;
    bool is_queued, is_waiting;        /* for a piece to be freed; in vain so far */
    pw_handle *ready[PW_PIECES_AHEAD]; /* complete_ns: ready since then */
    struct {
        uint64_t address, key, num_bytes;
        int64_t arrival_ns;
    } announced[PW_PIECES_AHEAD];
    pw_piece_message *next_waiting;
};

typedef struct {
    pw_piece_message **messages; /* by index, in the low half of an id; NULL: free */
    uint32_t num_messages;
    uint32_t num_made; /* of ids */
    pw_piece_message *first_waiting, *last_waiting;
} pw_pieces;
#endif
