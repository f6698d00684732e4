/* Thread of the user-space library that gets the driver's Netlink messages: touches pages (Touch-A-Page)
 * and sends ERRs [PSI 3.2, PART 4.4]. A serial server; each message wakes it up. Touching a page that is
 * not mapped any more is a segmentation fault, which it survives. Not thread-safe. */
#ifndef PW_SMMU_USER_THREAD_H
#define PW_SMMU_USER_THREAD_H
#include "native/calendar.h"
#include "native/config.h"
#include "native/memory.h"
#include "native/trace.h"
#include "smmu/netlink.h"
#include "smmu/page_in.h"

typedef struct {
    pw_time at_ns;              /* the ERR leaves the node */
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
} pw_err_order;

typedef struct {
    const pw_costs *costs;
    pw_counters *counters;
    pw_trace *trace;
    pw_memory *memory;
    pw_page_in *page_in;
    pw_calendar cpu;
    pw_err_order last_err;
    bool any_err;
} pw_user_thread;

typedef struct {
    pw_time end_ns;             /* the touch, good or bad, is over */
    bool touched;
    uint8_t effect;             /* PW_EFFECT_*: what the touch did to the page */
    int code;                   /* why the page can never come, for all that it is mapped; else PW_OK */
} pw_touch;

void pw_user_thread_init(pw_user_thread *thread, const pw_costs *costs, pw_counters *counters, pw_trace *trace,
                         pw_memory *memory, pw_page_in *page_in);
/* A message sent at sent_ns asks to touch its page. */
void pw_user_thread_touch(pw_user_thread *thread, const pw_netlink_message *message, pw_time sent_ns, pw_touch *out);
/* The ERR that the message's block deserves, sent at at_ns or when the thread is free. False when the
 * block had its ERR already. */
bool pw_user_thread_err(pw_user_thread *thread, const pw_netlink_message *message, pw_time at_ns, pw_err_order *out);
#endif
