"""What single steps of a transfer cost by the platform file: the sums that engine tests compare
with.

Each function is one sentence of docs/machine.md in terms of the platform's component costs, so a
reader of a test sees the breakdown of its expected time. Only for transfers that meet no other
traffic.
"""

from __future__ import annotations

from typing import Any

PACKET = 256
DESCRIPTOR_WORDS = 6
READ_REQUEST_PACKETS = 2
READ_REQUEST_WORDS = 8


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
        return 2 * self.c.r5_queue_op_ns + self.c.r5_start_block_ns + self.c.r5_logic_round_trip_ns

    def start_single(self) -> int:
        """A lone block: the look at the high queue, the start, its completion message."""
        return self.c.r5_bypass_check_ns + self.start() + self.c.r5_completion_message_ns

    def restart(self) -> int:
        """Timeout list; three words to the logic."""
        return self.c.r5_queue_op_ns + self.c.r5_start_block_ns + self.c.r5_logic_round_trip_ns

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
