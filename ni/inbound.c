/* Transfers that arrive, and what is kept of who sends them. */
#include "ni/state.h"
#include "r5sched/segmentation.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 8u

struct pw_sender {
    pw_peer peer;
    uint32_t num_open;
    uint32_t ended[PW_ENDED_KEPT]; /* stream + 1, by the stream's low bits; 0: none yet */
};

static struct pw_sender *sender_of(pw_ni *ni, uint32_t peer)
{
    return pw_peers_make(&ni->senders, peer, sizeof(struct pw_sender));
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

void pw_senders_ended(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    if (stream & PW_STREAM_READ) return; /* known by its request alone */
    struct pw_sender *sender = sender_of(ni, peer);
    if (sender) sender->ended[stream % PW_ENDED_KEPT] = stream + 1;
    else pw_ni_latch(ni, PW_ERR_NOMEM);
}

static pw_inbound **bucket(const pw_ni *ni, uint32_t peer, uint32_t stream)
{
    uint64_t key = ((uint64_t)peer << 32 | stream) * UINT64_C(0x9e3779b97f4a7c15);
    return &ni->inbounds[(uint32_t)(key >> 40) & (ni->num_inbound_buckets - 1)];
}

pw_inbound *pw_inbound_find(pw_ni *ni, uint32_t peer, uint32_t stream)
{
    pw_inbound *inbound = ni->num_inbounds ? *bucket(ni, peer, stream) : NULL;
    while (inbound && (inbound->peer != peer || inbound->stream != stream)) inbound = inbound->next;
    return inbound;
}

/* More buckets, as many as there are inbounds or more. */
static int more_buckets(pw_ni *ni)
{
    const uint32_t num_before = ni->num_inbound_buckets;
    pw_inbound **before = ni->inbounds;
    const uint32_t num_buckets = num_before ? 2 * num_before : FIRST_BUCKETS;
    pw_inbound **buckets = calloc(num_buckets, sizeof *buckets);
    if (!buckets) return PW_ERR_NOMEM;
    ni->inbounds = buckets;
    ni->num_inbound_buckets = num_buckets;
    for (uint32_t i = 0; i < num_before; i++)
        for (pw_inbound *each = before[i], *next; each; each = next) {
            pw_inbound **home = bucket(ni, each->peer, each->stream);
            next = each->next;
            each->next = *home;
            *home = each;
        }
    free(before);
    return PW_OK;
}

#define KEPT_WORDS 8u /* of `many`: 8 MB of blocks */

/* A bit for each block, none set. False: no memory. */
static bool make_bits(pw_inbound *inbound, uint32_t num_blocks)
{
    const uint32_t num_words = (num_blocks + 63) / 64;
    inbound->delivered = &inbound->few;
    if (num_words <= 1) return true;
    if (num_words > inbound->many_words || inbound->many_words > KEPT_WORDS) {
        free(inbound->many);
        inbound->many_words = num_words < KEPT_WORDS ? KEPT_WORDS : num_words;
        inbound->many = malloc(inbound->many_words * sizeof *inbound->many);
        if (!inbound->many) inbound->many_words = 0;
    }
    if (inbound->many) memset(inbound->many, 0, num_words * sizeof *inbound->many);
    inbound->delivered = inbound->many;
    return inbound->many != NULL;
}

pw_inbound *pw_inbound_create(pw_ni *ni, uint32_t peer, uint32_t stream,
                              uint64_t destination_address, uint64_t num_bytes,
                              const pw_notification *notification)
{
    uint32_t num_blocks =
        pw_num_blocks((uint64_t)ni->settings->block_bytes, destination_address, num_bytes);
    if (ni->num_inbounds == ni->num_inbound_buckets && more_buckets(ni) < 0) return NULL;
    pw_inbound *inbound = ni->free_inbounds;
    if (inbound) ni->free_inbounds = inbound->next;
    else if (!(inbound = calloc(1, sizeof *inbound))) return NULL;
    *inbound = (pw_inbound){.walk = {.for_write = true, .many = inbound->walk.many},
                            .many = inbound->many,
                            .many_words = inbound->many_words,
                            .translations = inbound->translations};
    if (!make_bits(inbound, num_blocks)) {
        inbound->next = ni->free_inbounds;
        ni->free_inbounds = inbound;
        return NULL;
    }
    inbound->peer = peer;
    inbound->stream = stream;
    inbound->destination_address = destination_address;
    inbound->num_bytes = num_bytes;
    inbound->num_blocks = num_blocks;
    inbound->notification = *notification;
    inbound->is_read = (stream & PW_STREAM_READ) != 0;
    pw_inbound **home = bucket(ni, peer, stream);
    inbound->next = *home;
    *home = inbound;
    ni->num_inbounds++;
    ni->num_arriving++;
    if (!inbound->is_read) sender_of(ni, peer)->num_open++;
    return inbound;
}

static void destroy_inbound(pw_ni *ni, pw_inbound *inbound)
{
    if (!inbound->is_read) sender_of(ni, inbound->peer)->num_open--;
    pw_inbound **link = bucket(ni, inbound->peer, inbound->stream);
    while (*link != inbound) link = &(*link)->next;
    *link = inbound->next;
    pw_bounds_release(ni, inbound);
    pw_path *path = pw_ni_path(ni, inbound->peer);
    if (path->lost.stream == inbound->stream) path->lost.is_set = false; /* it never comes */
    if ((inbound->has_page_ins || ni->advises) && inbound->num_bytes)
        pw_presence_forget(&ni->driver.presence, pw_page_of(inbound->destination_address),
                           pw_page_of(inbound->destination_address + inbound->num_bytes - 1) -
                               pw_page_of(inbound->destination_address) + 1);
    if (inbound->has_page_ins && inbound->notification.address)
        pw_presence_forget(&ni->driver.presence, pw_page_of(inbound->notification.address), 1);
    inbound->next = ni->free_inbounds;
    ni->free_inbounds = inbound;
    ni->num_inbounds--;
    ni->num_arriving -= !inbound->complete;
}

static void complete(pw_ni *ni, pw_inbound *inbound, int error, pw_time at_ns)
{
    const pw_notification *notification = &inbound->notification;
    if (error == PW_OK && notification->address) error = pw_notification_write(ni, inbound, &at_ns);
    inbound->complete = true;
    ni->num_arriving--;
    inbound->error = error;
    uint32_t kind = inbound->is_read ? PW_HOST_FETCH_DONE : PW_HOST_ARRIVED;
    pw_trace_add(&ni->trace, at_ns, PW_TRACE_NOTIFIED, inbound->stream, inbound->num_bytes);
    pw_engine_emit(ni, kind, inbound->stream, error, at_ns, inbound->num_bytes, inbound->peer);
    if (!notification->address) return;
    pw_host_event event = {.kind = PW_HOST_NOTIFIED,
                           .error = error,
                           .id = notification->address,
                           .time_ns = at_ns,
                           .num_bytes = inbound->num_bytes,
                           .peer = inbound->peer,
                           .data = {notification->data[0], notification->data[1]}};
    pw_engine_emit_event(ni, &event);
}

void pw_inbound_complete_when_whole(pw_ni *ni, pw_inbound *inbound)
{
    if (inbound->complete || !inbound->notified || inbound->num_delivered < inbound->num_blocks)
        return;
    complete(ni, inbound, PW_OK, pw_later(inbound->last_delivery_ns, inbound->notified_ns));
    if (inbound->closed) destroy_inbound(ni, inbound);
}

void pw_inbound_notified(pw_ni *ni, pw_inbound *inbound, pw_time at_ns)
{
    if (!inbound->notified) inbound->notified_ns = at_ns;
    inbound->notified = true;
    pw_inbound_complete_when_whole(ni, inbound);
}

void pw_inbound_close(pw_ni *ni, pw_inbound *inbound)
{
    inbound->closed = true;
    pw_bounds_release(ni, inbound);
    if (inbound->complete) destroy_inbound(ni, inbound);
}

void pw_inbound_fail(pw_ni *ni, pw_inbound *inbound, int error, pw_time at_ns)
{
    if (!inbound->complete) complete(ni, inbound, error, at_ns);
    destroy_inbound(ni, inbound);
}

static void free_inbound(pw_inbound *inbound)
{
    free(inbound->many);
    free(inbound->translations);
    pw_residency_finish(&inbound->walk);
    free(inbound);
}

void pw_inbound_destroy_all(pw_ni *ni)
{
    for (uint32_t i = 0; i < ni->num_inbound_buckets; i++)
        while (ni->inbounds[i]) {
            pw_inbound *inbound = ni->inbounds[i];
            ni->inbounds[i] = inbound->next;
            free_inbound(inbound);
        }
    while (ni->free_inbounds) {
        pw_inbound *inbound = ni->free_inbounds;
        ni->free_inbounds = inbound->next;
        free_inbound(inbound);
    }
    free(ni->inbounds);
}

void pw_inbound_fail_unserved(pw_ni *ni, uint32_t peer)
{
    for (uint32_t i = 0; i < ni->num_inbound_buckets; i++) {
        pw_inbound *next;
        for (pw_inbound *inbound = ni->inbounds[i]; inbound; inbound = next) {
            next = inbound->next;
            if (inbound->peer == peer && inbound->is_read && !inbound->complete &&
                inbound->num_delivered == 0)
                pw_inbound_fail(ni, inbound, PW_ERR_MALFORMED, 0);
        }
    }
}
