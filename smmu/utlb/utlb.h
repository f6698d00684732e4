/* UTLB: the NIC's cache of the process's translation table in host memory [UTLB]. A translation
 * unit with the SMMU's contexts and fault registers, and this cache in place of its TLBs and walks.
 * The library sees to it that each page of a transfer is pinned and has its entry in the table
 * before the NIC is told of the transfer (node/strategies/utlb.c), so that a miss costs a read of
 * host memory and no interrupt. A miss reads the entries of the next pages of the transfer along.
 * One cache for all processes, least recently used out. A page that the library has not prepared
 * faults as ever (assumed). No allocation after it is made. Not thread-safe. */
#ifndef PW_SMMU_UTLB_UTLB_H
#define PW_SMMU_UTLB_UTLB_H
#include "smmu/unit.h"

#define PW_UTLB_ENTRIES_MAX (1 << 20)
#define PW_UTLB_FETCH_MAX 64

int pw_utlb_create(const pw_unit_parts *parts, pw_translation_unit **out);
#endif
