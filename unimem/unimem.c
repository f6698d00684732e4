#include "unimem/unimem.h"
#include <stdlib.h>
#include <string.h>

#define MAILBOX_BASE UINT64_C(0x0040) /* bits 33:18 of every node's mailbox (assumed) */

enum { KIND_PACKET = PW_MESSAGE_OF_SERVICES, KIND_WORDS, KIND_ANSWER, KIND_PAGE, KIND_VALUE };
/* Of an envelope: the FIFO there, and the interface here that the answer is for. */
#define DESTINATION(fifo, interface) ((uint32_t)(fifo) | (uint32_t)(interface) << 8)

typedef struct {
    bool is_open, is_raw;
    bool is_waiting; /* and closed: the answer may still come, so it is never used again */
    uint32_t owner;
    pw_atomic_request request;
    uint8_t *page; /* made when the first one comes */
    pw_time page_ns;
    bool is_writing; /* a burst to a mailbox, whose answer is not known */
    int write_answer;
    pw_time write_answer_ns;
} pw_unimem_interface;

struct pw_unimem {
    pw_ni *ni;
    const pw_costs *costs;
    uint32_t node, num_nodes;
    pw_unimem_host host;
    pw_mailbox_fifo *fifos[PW_MAILBOX_FIFOS];
    pw_packetizer *packetizer;
    pw_atomic_service service;
    pw_kernel_mailbox *kernel;
    pw_unimem_interface interfaces[PW_PIFS];
    pw_unimem_counters counters;
};

/* Give the NI four words and a payload for a peer at at_ns. */
static int send(pw_unimem *unimem, uint32_t peer, uint8_t kind, uint32_t destination,
                const uint64_t words[4], const void *payload, uint32_t payload_bytes, pw_time at_ns)
{
    uint8_t frame[PW_UNIMEM_FRAME_MAX_BYTES];
    pw_ni_packet_write(unimem->ni, peer, kind, destination, words, payload, payload_bytes, at_ns,
                       frame);
    return unimem->host.send(unimem->host.context, peer, frame, PW_ENVELOPE_BYTES + payload_bytes);
}

static int create_parts(pw_unimem *unimem, const pw_settings *settings)
{
    for (uint32_t i = 0; i < PW_MAILBOX_FIFOS; i++) {
        unimem->fifos[i] = pw_mailbox_fifo_create((uint32_t)settings->mailbox_fifo_words,
                                                  settings->mailbox_bursts);
        if (!unimem->fifos[i]) return PW_ERR_NOMEM;
    }
    unimem->packetizer = pw_packetizer_create();
    unimem->kernel = pw_kernel_mailbox_create(unimem->num_nodes);
    if (!unimem->packetizer || !unimem->kernel) return PW_ERR_NOMEM;
    pw_packetizer_write_trusted(unimem->packetizer, PW_TIF_BASE_DEST,
                                MAILBOX_BASE << PW_DESTINATION_BASE_SHIFT);
    unimem->service = (pw_atomic_service){.costs = unimem->costs,
                                          .node = unimem->node,
                                          .context = unimem->host.spawn_context,
                                          .spawn = unimem->host.spawn};
    return pw_software_mmu_init(&unimem->service.mmu, (uint64_t)settings->shared_memory_bytes);
}

int pw_unimem_create(pw_ni *ni, const pw_costs *costs, const pw_settings *settings, uint32_t node,
                     uint32_t num_nodes, const pw_unimem_host *host, pw_unimem **out)
{
    if (num_nodes > PW_UNIMEM_NODES_MAX || node >= num_nodes) return PW_ERR_INVALID;
    pw_unimem *unimem = calloc(1, sizeof *unimem);
    if (!unimem) return PW_ERR_NOMEM;
    unimem->ni = ni;
    unimem->costs = costs;
    unimem->node = node;
    unimem->num_nodes = num_nodes;
    unimem->host = *host;
    int code = create_parts(unimem, settings);
    if (code < 0) {
        pw_unimem_destroy(unimem);
        return code;
    }
    *out = unimem;
    return PW_OK;
}

void pw_unimem_destroy(pw_unimem *unimem)
{
    if (!unimem) return;
    for (uint32_t i = 0; i < PW_MAILBOX_FIFOS; i++) {
        pw_mailbox_fifo_destroy(unimem->fifos[i]);
        free(unimem->interfaces[i].page);
    }
    pw_packetizer_destroy(unimem->packetizer);
    pw_kernel_mailbox_destroy(unimem->kernel);
    pw_calendar_finish(&unimem->service.core);
    pw_software_mmu_finish(&unimem->service.mmu);
    free(unimem);
}

/* ---- the driver */

bool pw_unimem_is_open(const pw_unimem *unimem, uint32_t interface, bool is_raw)
{
    return interface < PW_PIFS && unimem->interfaces[interface].is_open &&
           unimem->interfaces[interface].is_raw == is_raw;
}

static void set_valid(pw_unimem *unimem, uint32_t interface, bool is_valid)
{
    uint64_t valid = 0, bit = UINT64_C(1) << interface;
    pw_packetizer_read_trusted(unimem->packetizer, PW_TIF_PID_CONF, &valid);
    pw_packetizer_write_trusted(unimem->packetizer, PW_TIF_PID_CONF,
                                is_valid ? valid | bit : valid & ~bit);
}

int pw_unimem_open(pw_unimem *unimem, bool is_raw)
{
    for (uint32_t i = PW_UNIMEM_SERVICE + 1; i < PW_PIFS; i++) {
        pw_unimem_interface *page = &unimem->interfaces[i];
        if (page->is_open || page->is_waiting) continue;
        *page = (pw_unimem_interface){.is_open = true, .is_raw = is_raw, .page = page->page};
        pw_packetizer_write_trusted(unimem->packetizer, PW_TIF_IDS + 8 * i,
                                    pw_unimem_id(unimem, i));
        pw_packetizer_write_trusted(unimem->packetizer, PW_TIF_CLR_REQ, UINT64_C(1) << i);
        set_valid(unimem, i, true);
        return (int)i;
    }
    return PW_ERR_FULL;
}

int pw_unimem_close(pw_unimem *unimem, uint32_t interface)
{
    if (interface >= PW_PIFS || !unimem->interfaces[interface].is_open) return PW_ERR_INVALID;
    unimem->interfaces[interface].is_open = false;
    set_valid(unimem, interface, false);
    /* The next thread must not read what was for this one. */
    pw_mailbox_word gone;
    while (pw_mailbox_fifo_read(unimem->fifos[interface], &gone, 1, PW_NEVER - 1)) continue;
    return PW_OK;
}

uint64_t pw_unimem_id(const pw_unimem *unimem, uint32_t interface)
{
    return pw_sender_id(unimem->node, interface);
}

/* ---- raw interfaces */

uint64_t pw_unimem_destination(uint32_t node, uint32_t fifo)
{
    return pw_packet_destination(node, MAILBOX_BASE, fifo);
}

int64_t pw_unimem_write_packetizer(pw_unimem *unimem, uint32_t interface, uint32_t offset,
                                   const pw_mailbox_word *value, int64_t now_ns)
{
    pw_packet packet;
    if (interface >= PW_PIFS) return PW_ERR_INVALID;
    pw_time posted_ns = now_ns + unimem->costs->core_register_write_ns;
    int code =
        pw_packetizer_write(unimem->packetizer, interface, offset, *value, posted_ns, &packet);
    if (code < 0) return code;
    if (code == 0) return posted_ns;
    unimem->counters.packets++;
    if (packet.node >= unimem->num_nodes) { /* no link leads there */
        unimem->counters.nacks++;
        pw_packetizer_answered(unimem->packetizer, interface, false, posted_ns);
        return posted_ns;
    }
    const uint64_t words[4] = {packet.words[0].low, packet.words[0].high, packet.words[1].low,
                               packet.words[1].high};
    code = send(unimem, packet.node, KIND_PACKET, DESTINATION(packet.fifo, interface), words, NULL,
                0, posted_ns);
    return code < 0 ? code : posted_ns;
}

/* Post a packet by the three writes of an interface, the first at now_ns. */
static int64_t send_packet(pw_unimem *unimem, uint32_t interface, uint32_t node, uint32_t fifo,
                           const pw_mailbox_word words[2], pw_time now_ns)
{
    static const uint32_t offsets[3] = {PW_PIF_PAYLOAD0, PW_PIF_PAYLOAD1, PW_PIF_DESTINATION};
    const pw_mailbox_word values[3] = {words[0], words[1], {pw_unimem_destination(node, fifo), 0}};
    for (int i = 0; i < 3 && now_ns >= 0; i++)
        now_ns = pw_unimem_write_packetizer(unimem, interface, offsets[i], &values[i], now_ns);
    return now_ns;
}

uint64_t pw_unimem_status(const pw_unimem *unimem, uint32_t interface, int64_t now_ns)
{
    return interface < PW_PIFS ? pw_packetizer_status(unimem->packetizer, interface, now_ns) : 0;
}

int64_t pw_unimem_write_mailbox(pw_unimem *unimem, uint32_t interface, uint32_t node, uint32_t fifo,
                                const pw_mailbox_word *words, uint32_t num_words, int64_t now_ns)
{
    static const uint64_t none[4] = {0};
    if (!pw_unimem_is_open(unimem, interface, true) || node >= unimem->num_nodes ||
        fifo >= PW_MAILBOX_FIFOS || num_words == 0 || num_words > UNIMEM_BURST_MAX_WORDS)
        return PW_ERR_INVALID;
    pw_time posted_ns = now_ns + num_words * unimem->costs->core_register_write_ns;
    unimem->interfaces[interface].is_writing = true;
    int code = send(unimem, node, KIND_WORDS, DESTINATION(fifo, interface), none, words,
                    num_words * (uint32_t)sizeof *words, posted_ns);
    return code < 0 ? code : posted_ns;
}

int pw_unimem_write_answer(const pw_unimem *unimem, uint32_t interface, int64_t now_ns)
{
    if (!pw_unimem_is_open(unimem, interface, true)) return PW_ERR_INVALID;
    const pw_unimem_interface *page = &unimem->interfaces[interface];
    if (page->is_writing || page->write_answer_ns > now_ns) return PW_ERR_FULL;
    return page->write_answer;
}

uint32_t pw_unimem_read_mailbox(pw_unimem *unimem, uint32_t interface, pw_mailbox_word *words,
                                uint32_t num_words, int64_t now_ns)
{
    if (!pw_unimem_is_open(unimem, interface, true)) return 0;
    return pw_mailbox_fifo_read(unimem->fifos[interface], words, num_words, now_ns);
}

/* ---- the library: a thread asks the owner's service, and waits */

static int64_t send_request(pw_unimem *unimem, uint32_t interface, pw_time now_ns)
{
    pw_mailbox_word words[2];
    const pw_unimem_interface *page = &unimem->interfaces[interface];
    pw_atomic_request_to(&page->request, words);
    return send_packet(unimem, interface, page->owner, PW_UNIMEM_SERVICE, words, now_ns);
}

int64_t pw_unimem_post(pw_unimem *unimem, uint32_t interface, uint32_t owner, uint8_t opcode,
                       uint64_t address, uint64_t argument1, uint64_t argument2, int64_t now_ns)
{
    if (!pw_unimem_is_open(unimem, interface, false) || owner >= unimem->num_nodes)
        return PW_ERR_INVALID;
    pw_unimem_interface *page = &unimem->interfaces[interface];
    if (page->is_waiting || pw_unimem_status(unimem, interface, now_ns) & PW_PIF_PEND)
        return PW_ERR_FULL;
    page->owner = owner;
    page->request = (pw_atomic_request){
        .opcode = opcode, .address = address, .argument = {argument1, argument2}};
    int64_t posted_ns = send_request(unimem, interface, now_ns);
    page->is_waiting = posted_ns >= 0;
    return posted_ns;
}

int pw_unimem_test(pw_unimem *unimem, uint32_t interface, pw_unimem_answer *out)
{
    if (!pw_unimem_is_open(unimem, interface, false)) return PW_ERR_INVALID;
    pw_unimem_interface *page = &unimem->interfaces[interface];
    if (!page->is_waiting) return PW_ERR_INVALID;
    int64_t arrival_ns = pw_mailbox_fifo_next_ns(unimem->fifos[interface]);
    if (arrival_ns != PW_NEVER) {
        pw_mailbox_word response;
        pw_mailbox_fifo_read(unimem->fifos[interface], &response, 1, arrival_ns);
        page->is_waiting = false;
        if (page->request.opcode == PW_UNIMEM_READ4K && !response.low)
            arrival_ns = pw_later(arrival_ns, page->page_ns); /* it overtakes the page */
        *out = (pw_unimem_answer){.complete_ns = arrival_ns + unimem->costs->mailbox_read_ns,
                                  .error = response.low,
                                  .result = response.high};
        return 1;
    }
    if (!(pw_unimem_status(unimem, interface, PW_NEVER - 1) & PW_PIF_NACK)) return 0;
    out->complete_ns = pw_packetizer_answer_ns(unimem->packetizer, interface) +
                       unimem->costs->core_register_read_ns;
    return 2;
}

int64_t pw_unimem_post_again(pw_unimem *unimem, uint32_t interface, int64_t now_ns)
{
    if (!pw_unimem_is_open(unimem, interface, false) || !unimem->interfaces[interface].is_waiting)
        return PW_ERR_INVALID;
    unimem->counters.resent++;
    return send_request(unimem, interface, now_ns);
}

const uint8_t *pw_unimem_page(const pw_unimem *unimem, uint32_t interface)
{
    return interface < PW_PIFS ? unimem->interfaces[interface].page : NULL;
}

/* ---- what arrives */

static uint32_t fifo_of(const pw_envelope *envelope) { return envelope->destination & 0xff; }
static uint32_t interface_of(const pw_envelope *envelope) { return envelope->destination >> 8; }

/* The mailbox tells who has written whether it took the words. */
static int answer(pw_unimem *unimem, uint32_t source, const pw_envelope *envelope, bool is_acked)
{
    const uint64_t words[4] = {is_acked, envelope->kind == KIND_PACKET};
    return send(unimem, source, KIND_ANSWER, envelope->destination, words, NULL, 0,
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
    pw_mailbox_word words[UNIMEM_BURST_MAX_WORDS];
    uint32_t fifo = fifo_of(envelope), num_words = envelope->payload_bytes / sizeof *words;
    if (fifo >= PW_MAILBOX_FIFOS || num_words == 0 || num_words > UNIMEM_BURST_MAX_WORDS ||
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
        unimem->counters.values_lost += code == 0;
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

int pw_unimem_hand_over(void *context, uint32_t peer, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_unimem *const *nodes = context;
    pw_envelope envelope;
    memcpy(&envelope, frame, sizeof envelope);
    if (!nodes[envelope.source_node] || !nodes[peer]) return PW_OK;
    return pw_unimem_receive(nodes[peer], envelope.source_node, frame, frame_bytes);
}

/* ---- the atomic service */

int64_t pw_unimem_next_ns(const pw_unimem *unimem)
{
    int64_t arrival_ns = pw_mailbox_fifo_next_ns(unimem->fifos[PW_UNIMEM_SERVICE]);
    return arrival_ns == PW_NEVER ? PW_NEVER
                                  : pw_atomic_service_reads_ns(&unimem->service, arrival_ns);
}

int64_t pw_unimem_first_ns(pw_unimem *const *nodes, uint32_t num_nodes, uint32_t *node)
{
    int64_t first_ns = PW_NEVER;
    for (uint32_t i = 0; i < num_nodes; i++) {
        int64_t next_ns = nodes[i] ? pw_unimem_next_ns(nodes[i]) : PW_NEVER;
        if (next_ns >= first_ns) continue;
        first_ns = next_ns;
        *node = i;
    }
    return first_ns;
}

static int respond(pw_unimem *unimem, uint64_t sender, const pw_atomic_answer *said)
{
    static const uint64_t none[4] = {0};
    const pw_mailbox_word response = {said->error, said->result};
    uint32_t peer = pw_sender_node(sender);
    uint32_t destination = DESTINATION(pw_sender_interface(sender), PW_UNIMEM_SERVICE);
    int code = said->page ? send(unimem, peer, KIND_PAGE, destination, none, said->page,
                                 PW_PAGE_BYTES, said->at_ns)
                          : PW_OK;
    if (code < 0) return code;
    pw_time written_ns = said->at_ns + unimem->costs->core_register_write_ns;
    return send(unimem, peer, KIND_WORDS, destination, none, &response, sizeof response,
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

/* ---- the rest */

int64_t pw_unimem_send_value(pw_unimem *unimem, uint32_t node, uint64_t value, int64_t now_ns)
{
    const uint64_t words[4] = {value};
    if (node >= unimem->num_nodes) return PW_ERR_INVALID;
    pw_time posted_ns =
        now_ns + unimem->costs->packetizer_writes * unimem->costs->core_register_write_ns;
    unimem->counters.values++;
    int code = send(unimem, node, KIND_VALUE, 0, words, NULL, 0, posted_ns);
    return code < 0 ? code : posted_ns;
}

int pw_unimem_send_written(pw_unimem *unimem, int64_t now_ns)
{
    uint32_t node;
    uint64_t value;
    int code;
    while ((code = pw_kernel_mailbox_written(unimem->kernel, &node, &value)) > 0) {
        int64_t posted_ns = pw_unimem_send_value(unimem, node, value, now_ns);
        if (posted_ns < 0) return (int)posted_ns;
        now_ns = posted_ns;
    }
    return code;
}

pw_kernel_mailbox *pw_unimem_kernel_mailbox(pw_unimem *unimem) { return unimem->kernel; }

const uint8_t *pw_unimem_view(const pw_unimem *unimem, uint64_t id, uint64_t address,
                              uint64_t *num_bytes)
{
    if (address >> PW_UNIMEM_NODE_SHIFT != unimem->node) return NULL;
    uint64_t local = address & ((UINT64_C(1) << PW_UNIMEM_NODE_SHIFT) - 1);
    const pw_shared_page *page = pw_software_mmu_find(&unimem->service.mmu, local >> PW_PAGE_SHIFT);
    if (!page || !pw_shared_page_allows(page, id, false)) return NULL;
    uint64_t offset = local % PW_PAGE_BYTES;
    *num_bytes = (page->first_page + page->num_pages - page->page) * PW_PAGE_BYTES - offset;
    return page->memory + offset;
}

void pw_unimem_read_counters(const pw_unimem *unimem, pw_unimem_counters *out)
{
    *out = unimem->counters;
    out->wakeups = unimem->service.num_wakeups;
}
