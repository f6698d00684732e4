/* Component costs of the platform. The platform file fills them by field name, so a field here is a
 * key there, and a test compares both; nothing here is an end-to-end figure. Plain data. */
#ifndef PW_NATIVE_COSTS_H
#define PW_NATIVE_COSTS_H
#include "native/types.h"

/* cdef begin */
/* Component costs; value, unit and source stand in run/settings/platforms/NAME.toml. */
typedef struct {
    int64_t core_register_read_ns;  /* core to NI register, round trip */
    int64_t core_register_write_ns; /* posted */
    int64_t r5_notice_transfer_ns;  /* through the scratchpad word */
    int64_t r5_mailbox_notice_ns;   /* through the mailbox */
    int64_t r5_queue_op_ns;
    int64_t r5_id_search_ns;    /* a free transaction id without ticket queue */
    int64_t r5_bypass_check_ns; /* is the high queue empty? */
    int64_t r5_start_block_ns;
    int64_t r5_completion_message_ns;
    int64_t r5_ack_read_ns;
    int64_t r5_logic_round_trip_ns;
    int64_t r5_read_request_word_ns;
    int64_t link_mbps;            /* inside a QFDB */
    int64_t link_between_mbps;    /* between QFDBs */
    int64_t link_coding_permille; /* payload part of the line code */
    int64_t packet_header_bytes;
    int64_t hop_ns;    /* each link of a way */
    int64_t router_ns; /* between two links of a way */
    int64_t ni_send_ns;
    int64_t ni_receive_ns;
    int64_t receive_engine_mbps; /* memory side of either engine */
    int64_t zdma_channels;
    int64_t zdma_packet_bytes; /* payload of a packet */
    int64_t zdma_outstanding;  /* packets of a channel without a response */
    int64_t smmu_clock_ps;
    int64_t tlb_l1_hit_clocks;
    int64_t tlb_l2_hit_clocks;
    int64_t walk_ns;
    int64_t walk_accesses;     /* to memory, of a full walk: one a level */
    int64_t tlb_invalidate_ns; /* the OS announces a change of a mapping */
    int64_t vmh_lookup_ns;     /* miNI: VMH cache of one way; static: its table */
    int64_t vmh_way_ns;        /* either cache, each way more */
    int64_t cbh_lookup_ns;
    int64_t utlb_hit_ns;   /* UTLB: look-up in the NIC's cache */
    int64_t utlb_miss_ns;  /* more: the NIC reads the table in host memory */
    int64_t miss_delay_ns; /* interrupt until the kernel thread runs */
    int64_t miss_fill_ns;  /* the thread finds the entries and fills the slot */
    int64_t miss_pin_fixed_ns;
    int64_t miss_pin_page_ns;
    int64_t odp_fault_ns;        /* on-demand paging: a fault of the NIC for one page */
    int64_t odp_fault_page_ns;   /* each page more; each entry that is taken out */
    int64_t odp_invalidate_ns;   /* the driver has the NIC take entries out, and waits */
    int64_t backup_copy_page_ns; /* software copies a page from the backup ring */
    int64_t ats_lookup_ns;       /* PCIe ATS: in the device's cache */
    int64_t ats_message_ns;      /* one way between device and IOMMU */
    int64_t ats_wakeup_ns;       /* interrupt, or work queued, until the thread runs */
    int64_t ats_entry_ns;        /* the thread reads an entry of the queue */
    int64_t ats_response_ns;     /* the handler answers a group */
    int64_t ats_invalidate_ns;   /* the OS waits for the IOMMU; more for the device */
    int64_t np_check_ns;         /* NP-RDMA: software compares the versions of a transfer's pages */
    int64_t handler_ns;
    int64_t tasklet_other_ns;
    int64_t page_in_fixed_ns;
    int64_t page_in_page_ns;
    int64_t major_fault_ns; /* more for a page that comes back from swap */
    int64_t netlink_ns;
    int64_t netlink_queued_ns;     /* PSI: behind one of the same run, the reader is awake */
    int64_t transaction_lookup_ns; /* PSI: in the last two, for each entry */
    int64_t tasklet_schedule_ns;   /* PSI: again, when its reads are used up */
    int64_t user_wakeup_ns;
    int64_t err_send_ns;
    int64_t touch_absent_page_ns; /* user-space thread touches a page: Touch-A-Page */
    int64_t touch_resident_page_ns;
    int64_t packetizer_writes; /* register writes for one packet */
    int64_t packetizer_payload_bytes;
    int64_t mailbox_read_ns;
    int64_t mpi_call_ns;
    int64_t poll_ns;
    int64_t clock_read_ns;  /* the program reads the virtual clock */
    int64_t system_call_ns; /* into the kernel and back, with a look at what is asked for */
    int64_t lookup_ns;      /* of a memory strategy, in what it keeps of buffers */
    int64_t nodes_per_qfdb;
    int64_t atomic_decode_ns; /* Unimem's atomic service: a request decoded and checked */
    int64_t atomic_lookup_ns; /* in its software MMU */
    int64_t atomic_access_ns; /* it reads, changes and writes what is asked for */
    int64_t atomic_page_ns;   /* it copies a page to the NI */
    int64_t atomic_spawn_ns;  /* it starts a process or thread: remote fork */
    int64_t atomic_poll_ns;   /* it polls an empty mailbox for so long, then it sleeps */
    int64_t atomic_wakeup_ns; /* a request wakes it up */
} pw_costs;
/* cdef end */

#endif
