#include "ni/senders.h"
#include "ni/state.h"
#include <stdlib.h>

struct pw_sender {
    uint32_t num_open;
    uint32_t ended[PW_ENDED_KEPT]; /* stream + 1, by the stream's low bits; 0: none yet */
};

static struct pw_sender *sender_of(pw_ni *ni, uint32_t peer)
{
    if (!ni->senders[peer]) ni->senders[peer] = calloc(1, sizeof *ni->senders[peer]);
    return ni->senders[peer];
}

bool pw_senders_admit(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    const struct pw_sender *sender = sender_of(ni, peer);
    if (!sender) {
        pw_ni_latch(ni, PW_ERR_NOMEM);
        return false;
    }
    if (sender->ended[stream % PW_ENDED_KEPT] == stream + 1) {
        ni->counters.blocks_refused_ended++;
        return false;
    }
    if (sender->num_open >= PW_NUM_CHANNELS) {
        ni->counters.transfers_refused++;
        return false;
    }
    return true;
}

void pw_senders_opened(pw_ni *ni, uint32_t peer) { ni->senders[peer]->num_open++; }

void pw_senders_closed(pw_ni *ni, uint32_t peer) { ni->senders[peer]->num_open--; }

void pw_senders_ended(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    if (stream & PW_STREAM_READ) return; /* known by its request alone */
    struct pw_sender *sender = sender_of(ni, peer);
    if (sender) sender->ended[stream % PW_ENDED_KEPT] = stream + 1;
    else pw_ni_latch(ni, PW_ERR_NOMEM);
}

void pw_senders_destroy(pw_ni *ni)
{
    for (uint32_t peer = 0; ni->senders && peer < ni->num_nodes; peer++) free(ni->senders[peer]);
    free(ni->senders);
}
