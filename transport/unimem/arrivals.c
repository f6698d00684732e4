/* What arrives at a node, and what its atomic service does about it. */
#include "transport/unimem/state.h"
#include <stdlib.h>
#include <string.h>

static uint32_t fifo_of(const pw_envelope *envelope) { return envelope->destination & 0xff; }
static uint32_t interface_of(const pw_envelope *envelope) { return envelope->destination >> 8; }

/* The mailbox tells who has written whether it took the words. */
static int answer(pw_unimem *unimem, uint32_t source, const pw_envelope *envelope, bool is_acked)
{
    const uint64_t words[4] = {is_acked, envelope->kind == KIND_PACKET};
    return pw_unimem_send(unimem, source, KIND_ANSWER, envelope->destination, words, NULL, 0,
                          envelope->arrival_ns);
}

static bool enqueue(pw_unimem *unimem, uint32_t fifo, const pw_mailbox_word *words,
                    uint32_t num_words, pw_time at_ns)
{
    bool is_acked;
    uint32_t num_kept =
        pw_mailbox_fifo_write(unimem->fifos[fifo], words, num_words, at_ns, &is_acked);
    unimem->counters.words += num_kept;
    if (is_acked) unimem->counters.words_lost += num_words - num_kept;
    return is_acked;
}

static int take_packet(pw_unimem *unimem, uint32_t source, const pw_envelope *envelope)
{
    const pw_mailbox_word words[2] = {{envelope->num_bytes, envelope->address},
                                      {envelope->key, envelope->extra}};
    uint32_t fifo = fifo_of(envelope);
    uint64_t sender = envelope->num_bytes & PW_SENDER_ID_MASK;
    if (fifo >= PW_MAILBOX_FIFOS) return PW_ERR_MALFORMED;
    if (pw_sender_node(sender) != source || pw_sender_interface(sender) != interface_of(envelope)) {
        unimem->counters.dropped++; /* no packetizer makes it */
        return PW_OK;
    }
    /* Words for the library's threads come from services, not from packetizers. */
    bool is_taken = fifo == PW_UNIMEM_SERVICE || !pw_unimem_is_open(unimem, fifo, false);
    is_taken = is_taken && enqueue(unimem, fifo, words, 2, envelope->arrival_ns);
    return answer(unimem, source, envelope, is_taken);
}

static int take_words(pw_unimem *unimem, uint32_t source, const pw_envelope *envelope,
                      const uint8_t *payload)
{
    pw_mailbox_word words[PW_UNIMEM_BURST_MAX_WORDS];
    uint32_t fifo = fifo_of(envelope), num_words = envelope->payload_bytes / sizeof *words;
    if (fifo >= PW_MAILBOX_FIFOS || num_words == 0 || num_words > PW_UNIMEM_BURST_MAX_WORDS ||
        envelope->payload_bytes % sizeof *words)
        return PW_ERR_MALFORMED;
    memcpy(words, payload, envelope->payload_bytes);
    bool is_response = interface_of(envelope) == PW_UNIMEM_SERVICE;
    bool is_allowed =
        fifo != PW_UNIMEM_SERVICE && is_response == pw_unimem_is_open(unimem, fifo, false);
    bool is_acked = is_allowed && enqueue(unimem, fifo, words, num_words, envelope->arrival_ns);
    return is_response ? PW_OK : answer(unimem, source, envelope, is_acked);
}

static int take_answer(pw_unimem *unimem, const pw_envelope *envelope)
{
    uint32_t interface = interface_of(envelope);
    bool is_acked = envelope->num_bytes != 0;
    if (interface >= PW_PIFS) return PW_ERR_MALFORMED;
    if (envelope->address) {
        unimem->counters.nacks += !is_acked;
        pw_packetizer_answered(unimem->packetizer, interface, is_acked, envelope->arrival_ns);
        return PW_OK;
    }
    pw_unimem_interface *page = &unimem->interfaces[interface];
    page->is_writing = false;
    page->write_answer = is_acked;
    page->write_answer_ns = envelope->arrival_ns;
    return PW_OK;
}

static int take_page(pw_unimem *unimem, const pw_envelope *envelope, const uint8_t *payload)
{
    uint32_t interface = fifo_of(envelope);
    if (interface_of(envelope) != PW_UNIMEM_SERVICE || interface >= PW_PIFS ||
        envelope->payload_bytes != PW_PAGE_BYTES)
        return PW_ERR_MALFORMED;
    if (!pw_unimem_is_open(unimem, interface, false)) return PW_OK; /* its thread has gone */
    uint8_t **page = &unimem->interfaces[interface].page;
    if (!*page) *page = malloc(PW_PAGE_BYTES);
    if (!*page) return PW_ERR_NOMEM;
    memcpy(*page, payload, PW_PAGE_BYTES);
    unimem->interfaces[interface].page_ns = envelope->arrival_ns;
    return PW_OK;
}

static int take(pw_unimem *unimem, uint32_t source, const pw_envelope *envelope,
                const uint8_t *payload)
{
    int code;
    switch (envelope->kind) {
    case KIND_PACKET: return take_packet(unimem, source, envelope);
    case KIND_WORDS: return take_words(unimem, source, envelope, payload);
    case KIND_ANSWER: return take_answer(unimem, envelope);
    case KIND_PAGE: return take_page(unimem, envelope, payload);
    case KIND_VALUE:
        code = pw_kernel_mailbox_arrived(unimem->kernel, source, envelope->num_bytes,
                                         envelope->arrival_ns + unimem->costs->handler_ns);
        return code < 0 ? code : PW_OK;
    default: return PW_ERR_MALFORMED;
    }
}

int pw_unimem_receive(pw_unimem *unimem, uint32_t source, const uint8_t *frame,
                      uint32_t frame_bytes)
{
    pw_envelope envelope;
    int code = pw_ni_message_check(unimem->ni, frame, frame_bytes);
    if (code < 0) return code;
    memcpy(&envelope, frame, sizeof envelope);
    code = envelope.source_node == source ? take(unimem, source, &envelope, frame + sizeof envelope)
                                          : PW_ERR_MALFORMED;
    if (code == PW_ERR_MALFORMED) pw_ni_message_refuse(unimem->ni);
    return code;
}

/* ---- the atomic service */

int64_t pw_unimem_next_ns(const pw_unimem *unimem)
{
    int64_t arrival_ns = pw_mailbox_fifo_next_ns(unimem->fifos[PW_UNIMEM_SERVICE]);
    return arrival_ns == PW_NEVER ? PW_NEVER
                                  : pw_atomic_service_reads_ns(&unimem->service, arrival_ns);
}

static int respond(pw_unimem *unimem, uint64_t sender, const pw_atomic_answer *said)
{
    static const uint64_t none[4] = {0};
    const pw_mailbox_word response = {said->error, said->result};
    uint32_t peer = pw_sender_node(sender);
    uint32_t destination = DESTINATION(pw_sender_interface(sender), PW_UNIMEM_SERVICE);
    int code = said->page ? pw_unimem_send(unimem, peer, KIND_PAGE, destination, none, said->page,
                                           PW_PAGE_BYTES, said->at_ns)
                          : PW_OK;
    if (code < 0) return code;
    pw_time written_ns = said->at_ns + unimem->costs->core_register_write_ns;
    return pw_unimem_send(unimem, peer, KIND_WORDS, destination, none, &response, sizeof response,
                          written_ns);
}

int pw_unimem_serve(pw_unimem *unimem)
{
    pw_mailbox_word words[2];
    pw_atomic_answer said;
    int64_t at_ns = pw_unimem_next_ns(unimem);
    if (at_ns == PW_NEVER) return 0;
    if (pw_mailbox_fifo_read(unimem->fifos[PW_UNIMEM_SERVICE], words, 2, at_ns) < 2) {
        unimem->counters.torn++;
        return 1;
    }
    const pw_atomic_request request = pw_atomic_request_of(words);
    uint32_t interface = pw_sender_interface(request.sender);
    if (pw_sender_node(request.sender) >= unimem->num_nodes || interface == PW_UNIMEM_SERVICE ||
        interface >= PW_PIFS) {
        unimem->counters.dropped++; /* nobody to be answered: the second half of something */
        return 1;
    }
    pw_atomic_service_execute(&unimem->service, &request, at_ns, &said);
    unimem->counters.requests++;
    unimem->counters.refused += said.error != 0;
    int code = respond(unimem, request.sender, &said);
    return code < 0 ? code : 1;
}
