/* Costs over size: see cost_table.h. */
#include "node/settings/cost_table.h"

const char *pw_cost_table_refused(const pw_cost_table *table)
{
    if (table->num_points < 1 || table->num_points > PW_COST_POINTS_MAX)
        return "a cost table has no points or more than 16; give it 1 to 16";
    if (table->num_bytes[0] < 0 || table->cost_ns[0] < 0)
        return "a size or time of a cost table is below 0; give numbers from 0";
    for (uint32_t i = 1; i < table->num_points; i++) {
        if (table->num_bytes[i] <= table->num_bytes[i - 1])
            return "the sizes of a cost table do not rise; sort its points by size";
        if (table->cost_ns[i] < table->cost_ns[i - 1])
            return "the times of a cost table fall; a larger size never costs less";
    }
    return NULL;
}

int pw_cost_tables_check(const pw_cost_tables *tables, const char **reason)
{
    for (int i = 0; i < PW_COST_TABLES; i++) {
        *reason = pw_cost_table_refused(&tables->table[i]);
        if (*reason) return PW_ERR_INVALID;
    }
    return PW_OK;
}

/* 128 bits: a slope times a size, and the bytes of 2^52 pages. */
static int64_t cost_ns(const pw_cost_table *line, __int128 num_bytes)
{
    if (num_bytes == 0) return 0;
    if (num_bytes <= line->num_bytes[0] || line->num_points == 1) return line->cost_ns[0];
    uint32_t right = 1;
    while (right < line->num_points - 1 && line->num_bytes[right] < num_bytes) right++;
    uint32_t left = right - 1;
    __int128 rise_ns = (__int128)(line->cost_ns[right] - line->cost_ns[left]) *
                       (num_bytes - line->num_bytes[left]) /
                       (line->num_bytes[right] - line->num_bytes[left]);
    __int128 sum_ns = line->cost_ns[left] + rise_ns;
    return sum_ns > INT64_MAX ? INT64_MAX : (int64_t)sum_ns;
}

int64_t pw_cost_bytes_ns(const pw_cost_tables *tables, int table, uint64_t num_bytes)
{
    return cost_ns(&tables->table[table], num_bytes);
}

int64_t pw_cost_ns(const pw_cost_tables *tables, int table, uint64_t num_pages)
{
    return cost_ns(&tables->table[table], (__int128)num_pages << PW_PAGE_SHIFT);
}
