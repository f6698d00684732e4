#include "transport/node/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/node/config_values.h"
#include "transport/node/fields.h"

#define FORMAT_LINE "format = 1"
#define QUOTED_BYTES 200 /* of a key or value in a sentence */
#define NUM_SECTIONS 3

typedef struct {
    const char *path;
    pw_node_config *out;
    char *reason;
    uint32_t *line_of_key; /* by the key's number; 0: not seen yet */
    uint32_t line, node;
    int64_t last_node[PW_IMPAIRMENT_SITES]; /* whose own plan of a site was the last one */
} reader;

typedef struct {
    const pw_field_table *table;
    size_t offset; /* of the struct in pw_node_config */
} section;

static section section_at(uint32_t idx)
{
    const section sections[NUM_SECTIONS] = {
        {&pw_fields_costs, offsetof(pw_node_config, costs)},
        {&pw_fields_settings, offsetof(pw_node_config, settings)},
        {&pw_fields_run, offsetof(pw_node_config, run)},
    };
    return sections[idx];
}

/* Numbers of keys: the fields of each section, then the tables, then the sites. */
static uint32_t first_key(uint32_t section_idx)
{
    uint32_t key = 0;
    for (uint32_t i = 0; i < section_idx; i++) key += section_at(i).table->num_fields;
    return key;
}
static uint32_t num_keys(void)
{
    return first_key(NUM_SECTIONS) + PW_COST_TABLES + PW_IMPAIRMENT_SITES;
}

__attribute__((format(printf, 3, 4))) static int refuse(const reader *r, int code,
                                                        const char *format, ...)
{
    int used =
        snprintf(r->reason, PW_CONFIG_REASON_BYTES, "node file '%.*s'", QUOTED_BYTES, r->path);
    if (r->line)
        used += snprintf(r->reason + used, PW_CONFIG_REASON_BYTES - (size_t)used, ", line %" PRIu32,
                         r->line);
    used += snprintf(r->reason + used, PW_CONFIG_REASON_BYTES - (size_t)used, ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->reason + used, PW_CONFIG_REASON_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
    for (char *at = r->reason; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    return code;
}

static int refuse_value(const reader *r, const char *key, const char *value, int code,
                        const char *allowed)
{
    if (code == PW_ERR_NOMEM) return refuse(r, code, "no memory for the value of %s", key);
    return refuse(r, code, "%.*s = '%.*s': allowed is %s", QUOTED_BYTES, key, QUOTED_BYTES, value,
                  allowed);
}

static int refuse_unknown(const reader *r, const char *key)
{
    return refuse(r, PW_ERR_INVALID,
                  "unknown key '%.*s'; the file is of another version of pagewire: start the "
                  "program with the launcher of this one",
                  QUOTED_BYTES, key);
}

/* Notes that a key is there. */
static int see(reader *r, uint32_t key_idx, const char *key)
{
    if (r->line_of_key[key_idx])
        return refuse(r, PW_ERR_INVALID, "%.*s is there twice, first in line %" PRIu32,
                      QUOTED_BYTES, key, r->line_of_key[key_idx]);
    r->line_of_key[key_idx] = r->line;
    return PW_OK;
}

/* Limits of the whole numbers that stand for names; those of costs and settings are the engine's to
 * check. */
static void find_limits(const pw_field_table *table, const pw_field *field, int64_t *low,
                        int64_t *high)
{
    const struct {
        size_t offset;
        int64_t low, high;
    } limits[] = {
        {offsetof(pw_node_run, num_nodes), 1, UINT32_MAX},
        {offsetof(pw_node_run, compute), PW_COMPUTE_MEASURED, PW_COMPUTE_NONE},
        {offsetof(pw_node_run, wtime), PW_WTIME_VIRTUAL, PW_WTIME_WALL},
        {offsetof(pw_node_run, clocks), PW_CLOCKS_HOST, PW_CLOCKS_VIRTUAL},
        {offsetof(pw_node_run, wire), PW_CARRIER_AUTO, PW_CARRIER_TCP},
        {offsetof(pw_node_run, huge_pages), PW_HUGE_PAGES_NEVER, PW_HUGE_PAGES_HOST},
        {offsetof(pw_node_run, watchdog_ns), -1, INT64_MAX},
    };
    *low = INT64_MIN;
    *high = INT64_MAX;
    for (size_t i = 0; table == &pw_fields_run && i < sizeof limits / sizeof *limits; i++)
        if (limits[i].offset == field->offset) {
            *low = limits[i].low;
            *high = limits[i].high;
        }
}

static int read_field(reader *r, uint32_t section_idx, const char *name, const char *key,
                      const char *value)
{
    const section where = section_at(section_idx);
    char allowed[PW_VALUE_ALLOWED_BYTES];
    for (uint32_t i = 0; i < where.table->num_fields; i++) {
        const pw_field *field = &where.table->fields[i];
        if (strcmp(field->name, name)) continue;
        int code = see(r, first_key(section_idx) + i, key);
        if (code) return code;
        int64_t low, high;
        find_limits(where.table, field, &low, &high);
        code = pw_value_read_field(value, field, (char *)r->out + where.offset, low, high, allowed);
        return code ? refuse_value(r, key, value, code, allowed) : PW_OK;
    }
    return refuse_unknown(r, key);
}

static int read_table(reader *r, const char *name, const char *key, const char *value)
{
    char allowed[PW_VALUE_ALLOWED_BYTES];
    for (uint32_t i = 0; i < PW_COST_TABLES; i++) {
        if (strcmp(pw_cost_table_names[i], name)) continue;
        int code = see(r, first_key(NUM_SECTIONS) + i, key);
        if (code) return code;
        code = pw_value_read_table(value, &r->out->tables.table[i], allowed);
        return code ? refuse_value(r, key, value, code, allowed) : PW_OK;
    }
    return refuse_unknown(r, key);
}

/* `SITE` is the plan of every node, `SITE.NODE` that of one node, which stands behind the other;
 * those of a site rise. */
static int read_site(reader *r, const char *name, const char *key, const char *value)
{
    char allowed[PW_VALUE_ALLOWED_BYTES];
    const char *dot = strchrnul(name, '.');
    uint32_t site = 0;
    while (site < PW_IMPAIRMENT_SITES &&
           (strncmp(pw_impairment_names[site], name, (size_t)(dot - name)) ||
            pw_impairment_names[site][dot - name]))
        site++;
    if (site == PW_IMPAIRMENT_SITES) return refuse_unknown(r, key);
    uint32_t key_idx = first_key(NUM_SECTIONS) + PW_COST_TABLES + site;
    uint64_t node = 0;
    int code = PW_OK;
    if (!*dot) {
        code = see(r, key_idx, key);
    } else {
        const char *number = dot + 1;
        if (!pw_value_take_uint64(&number, UINT32_MAX, &node) || *number)
            return refuse_unknown(r, key);
        if (!r->line_of_key[key_idx] || (int64_t)node <= r->last_node[site])
            return refuse(r, PW_ERR_INVALID,
                          "%.*s stands behind impairments.%s and behind those of lower nodes, once",
                          QUOTED_BYTES, key, pw_impairment_names[site]);
        r->last_node[site] = (int64_t)node;
    }
    if (code) return code;
    pw_impairment_site plan;
    code = pw_value_read_site(value, &plan, allowed);
    if (code) return refuse_value(r, key, value, code, allowed);
    if (!*dot || node == r->node) r->out->impairments[site] = plan;
    return PW_OK;
}

static int read_changed(reader *r, const char *name, const char *key, char *value)
{
    pw_node_config *out = r->out;
    for (uint32_t i = 0; i < out->num_changed; i++)
        if (!strcmp(out->changed[i].name, name))
            return refuse(r, PW_ERR_INVALID, "%.*s is there twice", QUOTED_BYTES, key);
    if (!*name) return refuse_unknown(r, key);
    if (out->num_changed == PW_CONFIG_CHANGED_MAX)
        return refuse(r, PW_ERR_INVALID, "%.*s: allowed are %d settings that are not default",
                      QUOTED_BYTES, key, PW_CONFIG_CHANGED_MAX);
    if (!pw_value_unescape(value))
        return refuse_value(r, key, value, PW_ERR_INVALID,
                            "a text in which \\ stands before \\ or n alone");
    out->changed[out->num_changed++] = (pw_changed_setting){name, value};
    return PW_OK;
}

/* A line without its end; changes it. */
static int read_line(reader *r, char *line)
{
    char *separator = strstr(line, " = ");
    if (!separator || separator == line)
        return refuse(r, PW_ERR_INVALID, "'%.*s': expected `name = value`", QUOTED_BYTES, line);
    if (r->line == 1) {
        if (!strcmp(line, FORMAT_LINE)) return PW_OK;
        return refuse(r, PW_ERR_INVALID,
                      "'%.*s': expected `" FORMAT_LINE "`; the file is of another version of "
                      "pagewire: start the program with the launcher of this one",
                      QUOTED_BYTES, line);
    }
    *separator = '\0';
    char *value = separator + 3;
    const char *dot = strchr(line, '.');
    if (!dot) return refuse_unknown(r, line);
    size_t length = (size_t)(dot - line);
    const char *name = dot + 1;
    for (uint32_t i = 0; i < NUM_SECTIONS; i++) {
        const char *known = section_at(i).table->section;
        if (strlen(known) == length && !strncmp(known, line, length))
            return read_field(r, i, name, line, value);
    }
    if (!strncmp(line, "tables.", length + 1)) return read_table(r, name, line, value);
    if (!strncmp(line, "impairments.", length + 1)) return read_site(r, name, line, value);
    if (!strncmp(line, "changed.", length + 1)) return read_changed(r, name, line, value);
    return refuse_unknown(r, line);
}

static int check_complete(const reader *r)
{
    uint32_t missing = num_keys(), num_missing = 0;
    for (uint32_t key = num_keys(); key-- > 0;)
        if (!r->line_of_key[key]) {
            missing = key;
            num_missing++;
        }
    if (!num_missing) return PW_OK;
    const char *owner = "impairments", *name;
    uint32_t idx = 0;
    while (idx < NUM_SECTIONS && missing >= first_key(idx + 1)) idx++;
    uint32_t offset = missing - first_key(idx);
    if (idx < NUM_SECTIONS) {
        owner = section_at(idx).table->section;
        name = section_at(idx).table->fields[offset].name;
    } else if (offset < PW_COST_TABLES) {
        owner = "tables";
        name = pw_cost_table_names[offset];
    } else {
        name = pw_impairment_names[offset - PW_COST_TABLES];
    }
    return refuse(r, PW_ERR_INVALID, "%s.%s is missing (%" PRIu32 " of %" PRIu32 " keys are)",
                  owner, name, num_missing, num_keys());
}

static int read_lines(reader *r, char *text, size_t num_bytes)
{
    char *end = text + num_bytes;
    if (!num_bytes || end[-1] != '\n')
        return refuse(r, PW_ERR_INVALID, "it ends within a line (%zu bytes): it was cut off",
                      num_bytes);
    while (text < end) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        *stop = '\0';
        r->line++;
        if (strlen(text) != (size_t)(stop - text))
            return refuse(r, PW_ERR_INVALID, "'%.*s' and a byte 0: expected text", QUOTED_BYTES,
                          text);
        int code = read_line(r, text);
        if (code) return code;
        text = stop + 1;
    }
    r->line = 0;
    int code = check_complete(r);
    if (!code && r->node >= r->out->run.num_nodes)
        return refuse(r, PW_ERR_INVALID,
                      "node %" PRIu32 " in a run of %" PRId64 " (run.num_nodes): start as many "
                      "processes as the launcher was told",
                      r->node, r->out->run.num_nodes);
    return code;
}

/* The bytes of the file and a 0 behind them. */
static int load(const reader *r, char *text, size_t *num_bytes)
{
    int descriptor = open(r->path, O_RDONLY | O_CLOEXEC);
    ssize_t count = descriptor < 0 ? -1 : 1;
    for (*num_bytes = 0; count > 0 && *num_bytes <= PW_CONFIG_FILE_MAX_BYTES;) {
        count = read(descriptor, text + *num_bytes, PW_CONFIG_FILE_MAX_BYTES + 1 - *num_bytes);
        if (count > 0) *num_bytes += (size_t)count;
        if (count < 0 && errno == EINTR) count = 1;
    }
    int failed = errno;
    if (descriptor >= 0) close(descriptor);
    if (count < 0) {
        refuse(r, PW_ERR_HOST, "it cannot be read: %s%s", strerror(failed),
               failed == ENOENT ? "; all hosts of a run must see it" : "");
        errno = failed;
        return PW_ERR_HOST;
    }
    if (*num_bytes > PW_CONFIG_FILE_MAX_BYTES)
        return refuse(r, PW_ERR_INVALID, "it has more than %d bytes", PW_CONFIG_FILE_MAX_BYTES);
    text[*num_bytes] = '\0';
    return PW_OK;
}

int pw_node_config_read(const char *path, uint32_t node, pw_node_config *out,
                        char reason[PW_CONFIG_REASON_BYTES])
{
    reader r = {.path = path, .out = out, .reason = reason, .node = node};
    for (uint32_t i = 0; i < PW_IMPAIRMENT_SITES; i++) r.last_node[i] = -1;
    memset(out, 0, sizeof *out);
    r.line_of_key = calloc(num_keys(), sizeof *r.line_of_key);
    out->text = malloc(PW_CONFIG_FILE_MAX_BYTES + 2); /* what is not touched costs nothing */
    size_t num_bytes;
    int code = PW_ERR_NOMEM;
    if (!r.line_of_key || !out->text) refuse(&r, code, "no memory to read it");
    else if (!(code = load(&r, out->text, &num_bytes))) code = read_lines(&r, out->text, num_bytes);
    free(r.line_of_key);
    if (code) {
        int failed = errno;
        pw_node_config_free(out);
        errno = failed;
        return code;
    }
    return PW_OK;
}

void pw_node_config_free(pw_node_config *config)
{
    free(config->text);
    memset(config, 0, sizeof *config);
}
