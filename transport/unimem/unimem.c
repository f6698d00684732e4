#include "transport/unimem/unimem.h"
#include "transport/unimem/state.h"
#include <stdlib.h>
#include <string.h>

static uint64_t spawn(void *context, const pw_fork_request *wanted)
{
    const pw_unimem *unimem = context;
    return unimem->host.spawn(unimem->host.context, wanted);
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
                                          .context = unimem,
                                          .spawn = unimem->host.spawn ? spawn : NULL};
    pw_calendar_init(&unimem->service.core);
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
    pw_software_mmu_finish(&unimem->service.mmu);
    free(unimem);
}

int pw_unimem_send(pw_unimem *unimem, uint32_t peer, uint8_t kind, uint32_t destination,
                   const uint64_t words[4], const void *payload, uint32_t payload_bytes,
                   pw_time at_ns)
{
    uint8_t frame[PW_UNIMEM_FRAME_MAX_BYTES];
    pw_ni_packet_write(unimem->ni, peer, kind, destination, words, payload, payload_bytes, at_ns,
                       frame);
    return unimem->host.send(unimem->host.context, peer, frame, PW_ENVELOPE_BYTES + payload_bytes);
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
        if (page->is_open || page->is_lost) continue;
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
    code = pw_unimem_send(unimem, packet.node, KIND_PACKET, DESTINATION(packet.fifo, interface),
                          words, NULL, 0, posted_ns);
    return code < 0 ? code : posted_ns;
}

int64_t pw_unimem_send_packet(pw_unimem *unimem, uint32_t interface, uint32_t node, uint32_t fifo,
                              const pw_mailbox_word words[2], pw_time now_ns)
{
    static const uint32_t offsets[3] = {PW_PIF_PAYLOAD0, PW_PIF_PAYLOAD1, PW_PIF_DESTINATION};
    const pw_mailbox_word values[3] = {
        words[0], words[1], {pw_packet_destination(node, MAILBOX_BASE, fifo), 0}};
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
        fifo >= PW_MAILBOX_FIFOS || num_words == 0 || num_words > PW_UNIMEM_BURST_MAX_WORDS)
        return PW_ERR_INVALID;
    pw_time posted_ns = now_ns + num_words * unimem->costs->core_register_write_ns;
    unimem->interfaces[interface].is_writing = true;
    int code = pw_unimem_send(unimem, node, KIND_WORDS, DESTINATION(fifo, interface), none, words,
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

int64_t pw_unimem_next_word_ns(const pw_unimem *unimem, uint32_t interface)
{
    return interface < PW_PIFS ? pw_mailbox_fifo_next_ns(unimem->fifos[interface]) : PW_NEVER;
}

/* ---- the rest */

int64_t pw_unimem_send_value(pw_unimem *unimem, uint32_t node, uint64_t value, int64_t now_ns)
{
    const uint64_t words[4] = {value};
    if (node >= unimem->num_nodes) return PW_ERR_INVALID;
    pw_time posted_ns =
        now_ns + unimem->costs->packetizer_writes * unimem->costs->core_register_write_ns;
    unimem->counters.values++;
    int code = pw_unimem_send(unimem, node, KIND_VALUE, 0, words, NULL, 0, posted_ns);
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
    out->values_lost = pw_kernel_mailbox_num_dropped(unimem->kernel);
}
