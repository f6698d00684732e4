/* The library's side: a thread asks the owner's atomic service, and waits. */
#include "transport/unimem/state.h"

static int64_t send_request(pw_unimem *unimem, uint32_t interface, pw_time now_ns)
{
    pw_mailbox_word words[2];
    const pw_unimem_interface *page = &unimem->interfaces[interface];
    pw_atomic_request_to(&page->request, words);
    return pw_unimem_send_packet(unimem, interface, page->owner, PW_UNIMEM_SERVICE, words, now_ns);
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
    int64_t arrival_ns = pw_unimem_next_word_ns(unimem, interface);
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

void pw_unimem_forget(pw_unimem *unimem, uint32_t interface)
{
    if (!pw_unimem_is_open(unimem, interface, false)) return;
    pw_unimem_close(unimem, interface);
    unimem->interfaces[interface].is_lost = true;
}

const uint8_t *pw_unimem_page(const pw_unimem *unimem, uint32_t interface)
{
    return interface < PW_PIFS ? unimem->interfaces[interface].page : NULL;
}
