/* The base system of miNI (VMMC): all tables on the NIC [MINI 1.2]. Pages of a buffer are pinned
 * and entered when it is used first, for good, and there is room for so many pages and buffers; one
 * more is refused. The thesis's programs register at their start, so a registration takes no
 * virtual time here. One NI, one thread at a time. */
#ifndef PW_MINI_STATIC_TABLES_H
#define PW_MINI_STATIC_TABLES_H
#include "mini/mini.h"

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_mini_processes processes;
    pw_vmh_table table;
} pw_static_tables;

void pw_static_tables_init(pw_static_tables *tables, const pw_costs *costs,
                           const pw_settings *settings, pw_counters *counters, pw_memory *memory);
void pw_static_tables_destroy(pw_static_tables *tables);
#endif
