/* What records of the driver draw: faults, handler, tasklet, page-ins, touches. */
#ifndef PW_RUN_TIMELINE_DRIVER_TRACKS_H
#define PW_RUN_TIMELINE_DRIVER_TRACKS_H
#include "run/timeline/label.h"
#include "run/timeline/tracks.h"

/* Something without a length, with the arrows that the story has found last. */
void pw_tracks_instant(const pw_tracks *tracks, uint32_t rank, enum pw_track track, pw_time at_ns,
                       const pw_name *name);
void pw_tracks_fault(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
void pw_tracks_handler(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
void pw_tracks_tasklet(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
void pw_tracks_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
/* The translation unit has brought pages in, or its software. */
void pw_tracks_unit_page_in(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
/* The library has touched a page, or could not. */
void pw_tracks_touch(pw_tracks *tracks, uint32_t rank, const pw_trace_record *record);
#endif
