/* Frames in: each is delimited, checked and given to the part of the NI that its kind concerns. One
 * NI, one thread at a time. */
#ifndef PW_NI_DISPATCH_H
#define PW_NI_DISPATCH_H
#include "ni/ni.h"

/* Handle the frames of a burst until a decision is wanted; how many bytes were taken. *result:
 * PW_ERR_MALFORMED when part was dropped. */
uint32_t pw_dispatch_burst(pw_ni *ni, uint32_t source, const uint8_t *data, uint32_t num_bytes,
                           int *result);

#endif
