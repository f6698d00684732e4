"""What single steps of a transfer cost by the platform file: the sums that engine tests compare
with.

Each function is one sentence of docs/machine.md in terms of the platform's component costs, so a
reader of a test sees the breakdown of its expected time. Only for transfers that meet no other
traffic.
"""

from typing import Any

PACKET = 256
DESCRIPTOR_WORDS = 6
READ_REQUEST_PACKETS = 2
READ_REQUEST_WORDS = 12


class Steps:
    """Component costs of one platform, between two nodes of one QFDB."""

    def __init__(self, costs: Any) -> None:
        self.c = costs
        self.byte_ps_1000 = 8_000_000_000_000 // (costs.link_mbps * costs.link_coding_permille)

    def post_write(self) -> int:
        """The user writes the descriptor's words."""
        return DESCRIPTOR_WORDS * self.c.core_register_write_ns

    def notice(self) -> int:
        """The R5 finds the descriptor in the scratchpad."""
        return self.c.r5_notice_transfer_ns

    def post_read(self) -> int:
        """The user writes the request's packets, they travel, the R5 there reads it word by
        word."""
        posted = (
            READ_REQUEST_PACKETS * self.c.packetizer_writes * self.c.core_register_write_ns
            + self.latency()
        )
        return posted + READ_REQUEST_WORDS * self.c.r5_read_request_word_ns + self.c.r5_queue_op_ns

    def start(self) -> int:
        """Ticket; table and timeout list; three words to the logic."""
        return self.c.r5_queue_op_ns + self.restart()

    def start_single(self) -> int:
        """A lone block: the look at the high queue, the start, its completion message."""
        return self.c.r5_bypass_check_ns + self.start() + self.c.r5_completion_message_ns

    def restart(self) -> int:
        """Table; timeout list; three words to the logic."""
        return 2 * self.c.r5_queue_op_ns + self.c.r5_start_block_ns + self.c.r5_logic_round_trip_ns

    def latency(self) -> int:
        """NI, one hop, NI, without serialisation."""
        return self.c.ni_send_ns + self.c.hop_ns + self.c.ni_receive_ns

    def walk(self) -> int:
        return self.c.walk_ns

    def l1_hit(self) -> int:
        return -(-self.c.tlb_l1_hit_clocks * self.c.smmu_clock_ps // 1000)

    def wire(self, num_bytes: int) -> int:
        """A block's packets on the link."""
        num_packets = -(-num_bytes // PACKET)
        bytes_on_link = num_bytes + num_packets * self.c.packet_header_bytes
        return -(-(bytes_on_link * self.byte_ps_1000 // 1000) // 1000)

    def first_packet(self, num_bytes: int) -> int:
        """The block's first packet on the link."""
        bytes_on_link = min(num_bytes, PACKET) + self.c.packet_header_bytes
        return bytes_on_link * self.byte_ps_1000 // 1_000_000

    def packet_offset(self, index: int) -> int:
        """Arrival of the index-th packet after the first."""
        packet_ps = (PACKET + self.c.packet_header_bytes) * self.byte_ps_1000 // 1000
        return index * packet_ps // 1000

    def read_mailbox(self) -> int:
        """The R5 takes an answer out of the mailbox."""
        return self.c.r5_ack_read_ns

    def acknowledged(self) -> int:
        """An acknowledgement travels, is read and its table entry freed."""
        return self.latency() + self.read_mailbox() + self.c.r5_queue_op_ns


class Core:
    """The destination's core while one run of the tasklet goes on."""

    def __init__(self, pair: Any, faults: list[int]) -> None:
        """Every access to an absent page, in time order: each that finds FSR clear is an
        interrupt."""
        self.c = pair.costs
        self.interrupts: list[int] = []
        for fault in faults:
            if not self.interrupts or fault >= self.interrupts[-1] + self.c.handler_ns:
                self.interrupts.append(fault)

    def in_run(self, work_ns: int) -> int:
        """When so much of the run's work is done: it begins with the first handler's end, and a
        handler that begins before then delays it."""
        at_ns = self.interrupts[0] + self.c.handler_ns + work_ns
        for interrupt in self.interrupts[1:]:
            if interrupt < at_ns:
                at_ns += self.c.handler_ns
        return at_ns

    def until_present(self, num_absent: int) -> int:
        """An entry's work until its pages are there: get_user_pages, and the other work, in which
        are the reads of its two words."""
        c = self.c
        page_in = c.page_in_fixed_ns + num_absent * c.page_in_page_ns
        return c.tasklet_other_ns + page_in

    def entry(self, num_absent: int) -> int:
        """The whole of it, with the message."""
        return self.until_present(num_absent) + self.c.netlink_ns
