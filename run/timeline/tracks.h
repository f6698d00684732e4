/* What each kind of record draws, and on which track. One thread at a time. */
#ifndef PW_RUN_TIMELINE_TRACKS_H
#define PW_RUN_TIMELINE_TRACKS_H
#include "native/event_queue.h"
#include "run/timeline/lifelines.h"
#include "run/timeline/record_order.h"

/* Of a rank: what goes on with the next record. */
typedef struct {
    pw_span *r5, *job; /* NULL: none */
    uint64_t job_page, job_pages;
    pw_time calls_end_ns;
    pw_time bin_ns; /* of the link's bandwidth */
    int64_t bin_idx;
    uint64_t bin_bytes;
} pw_rank_tracks;

typedef struct {
    pw_story story;
    pw_event_queue *arrivals; /* of messages on their way; kind: from << 16 | to */
    pw_rank_tracks *ranks;    /* as many as the story's */
    pw_time handler_ns, err_send_ns;
} pw_tracks;

/* story and costs are set. PW_ERR_NOMEM. */
int pw_tracks_start(pw_tracks *tracks, const pw_record_order *order);
/* The next record by time. */
void pw_tracks_draw(pw_tracks *tracks, uint32_t rank, const pw_rank_records *of_rank,
                    const pw_trace_record *record);
/* No more records. */
void pw_tracks_finish(pw_tracks *tracks);
void pw_tracks_destroy(pw_tracks *tracks);
#endif
