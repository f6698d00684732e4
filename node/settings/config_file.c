/* The node file: see config.h. Nothing of it is kept but what the texts set. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/settings/config.h"
#include "node/settings/setting_rows.h"
#include "node/strategies/strategy.h"

#define FORMAT_LINE "format=2"
#define QUOTED_BYTES 200
#define OTHER_VERSION \
    "the file is of another version of pagewire: start the program with the launcher of this one"
#define NOT_GIVEN INT64_MIN /* no cost, and no number of points */

typedef struct {
    const char *path;
    pw_node_config *out;
    pw_sentence *reason;
    uint32_t line, node;
    bool has_ended;
} reader;

/* Puts file and line before a reason, and makes control characters visible. */
static int refuse(const reader *r, int code, const char *because)
{
    pw_sentence whole;
    pw_sentence_clear(&whole);
    pw_sentence_add(&whole, "node file '%.*s'", QUOTED_BYTES, r->path);
    if (r->line) pw_sentence_add(&whole, ", line %" PRIu32, r->line);
    pw_sentence_add(&whole, ": %s", because);
    for (char *at = whole.text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    *r->reason = whole;
    return code;
}

static int refuse_line(const reader *r, const char *line, const char *expected)
{
    pw_sentence because;
    pw_sentence_refuse(&because, 0, "'%.*s': expected %s", QUOTED_BYTES, line, expected);
    return refuse(r, PW_ERR_INVALID, because.text);
}

/* Undoes the writer's escapes in place: \\ and \n. False: another one. */
static bool unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        const bool is_escape = *text == '\\';
        text += is_escape;
        if (is_escape && *text != '\\' && *text != 'n') return false;
        *to++ = is_escape && *text == 'n' ? '\n' : *text;
    }
    *to = '\0';
    return true;
}

/* A whole number at *text, which goes on behind it. */
static bool take_number(char **text, uint64_t high, uint64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 && *out <= high;
}

static int read_setting(reader *r, char *line)
{
    uint64_t node = r->node;
    char *text = line;
    if (*text == '@') {
        text++;
        if (!take_number(&text, UINT32_MAX, &node) || *text++ != ' ')
            return refuse_line(r, line, "`@NODE name=value`");
    }
    if (!unescape(text)) return refuse_line(r, line, "\\ before \\ or n alone");
    if (node != r->node) return PW_OK;
    const int code = pw_node_config_take(r->out, text, true, r->reason);
    if (code == PW_OK) return PW_OK;
    const pw_sentence because = *r->reason;
    return refuse(r, code, because.text);
}

static int read_line(reader *r, char *line)
{
    char *number = line + strlen("nodes=");
    uint64_t num_nodes;
    if (r->has_ended) return refuse_line(r, line, "nothing behind `end`");
    if (r->line == 1)
        return strcmp(line, FORMAT_LINE) == 0
                   ? PW_OK
                   : refuse_line(r, line, "`" FORMAT_LINE "`; " OTHER_VERSION);
    if (r->line == 2) {
        if (strncmp(line, "nodes=", strlen("nodes=")) != 0 ||
            !take_number(&number, UINT32_MAX, &num_nodes) || *number || !num_nodes)
            return refuse_line(r, line, "`nodes=NUMBER`");
        r->out->run.num_nodes = (int64_t)num_nodes;
        return PW_OK;
    }
    r->has_ended = strcmp(line, "end") == 0;
    return r->has_ended ? PW_OK : read_setting(r, line);
}

static int read_lines(reader *r, char *text, size_t num_bytes)
{
    char *end = text + num_bytes;
    while (text < end) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) break;
        *stop = '\0';
        r->line++;
        if (strlen(text) != (size_t)(stop - text)) return refuse_line(r, text, "text, no byte 0");
        const int code = read_line(r, text);
        if (code < 0) return code;
        text = stop + 1;
    }
    r->line = 0;
    if (r->has_ended && text == end) return PW_OK;
    return refuse(r, PW_ERR_INVALID, "it does not end with `end`: it was cut off");
}

/* The platform may be a file that only the launcher reads: every cost must have been given. */
static void forget_costs(pw_node_config *config)
{
    int64_t *cost = (int64_t *)(void *)&config->costs;
    for (size_t i = 0; i < sizeof config->costs / sizeof *cost; i++) cost[i] = NOT_GIVEN;
    memset(&config->tables, 0, sizeof config->tables);
}

static int check_complete(const reader *r)
{
    const pw_setting_row *row;
    pw_sentence because;
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++) {
        if (row->initial) continue;
        const char *field = (const char *)r->out + row->offset;
        const bool is_given = row->kind == PW_KIND_TABLE
                                  ? ((const pw_cost_table *)(const void *)field)->num_points > 0
                                  : *(const int64_t *)(const void *)field != NOT_GIVEN;
        if (is_given) continue;
        pw_sentence_refuse(&because, 0, "%s is missing; " OTHER_VERSION, row->name);
        return refuse(r, PW_ERR_INVALID, because.text);
    }
    if (r->node < r->out->run.num_nodes) return PW_OK;
    pw_sentence_refuse(&because, 0,
                       "node %" PRIu32 " in a run of %" PRId64 " (nodes=): start as many processes "
                       "as the launcher was told",
                       r->node, r->out->run.num_nodes);
    return refuse(r, PW_ERR_INVALID, because.text);
}

/* The bytes of the file. */
static int load(const reader *r, char *text, size_t *num_bytes)
{
    pw_sentence because;
    int descriptor = open(r->path, O_RDONLY | O_CLOEXEC);
    ssize_t count = descriptor < 0 ? -1 : 1;
    for (*num_bytes = 0; count > 0 && *num_bytes <= PW_CONFIG_FILE_MAX_BYTES;) {
        count = read(descriptor, text + *num_bytes, PW_CONFIG_FILE_MAX_BYTES + 1 - *num_bytes);
        if (count > 0) *num_bytes += (size_t)count;
        if (count < 0 && errno == EINTR) count = 1;
    }
    const int failed = errno;
    if (descriptor >= 0) close(descriptor);
    if (count < 0) {
        pw_sentence_refuse(&because, 0, "it cannot be read: %s%s", strerror(failed),
                           failed == ENOENT ? "; all hosts of a run must see it" : "");
        refuse(r, PW_ERR_HOST, because.text);
        errno = failed;
        return PW_ERR_HOST;
    }
    if (*num_bytes <= PW_CONFIG_FILE_MAX_BYTES) return PW_OK;
    pw_sentence_refuse(&because, 0, "it has more than %d bytes", PW_CONFIG_FILE_MAX_BYTES);
    return refuse(r, PW_ERR_INVALID, because.text);
}

int pw_node_config_read(const char *path, uint32_t node, pw_node_config *out, pw_sentence *reason)
{
    reader r = {.path = path, .out = out, .reason = reason, .node = node};
    char *text = malloc(PW_CONFIG_FILE_MAX_BYTES + 1); /* what is not touched costs nothing */
    size_t num_bytes;
    if (!text) return refuse(&r, PW_ERR_NOMEM, "no memory to read it");
    pw_node_config_default(out);
    forget_costs(out);
    int code = load(&r, text, &num_bytes);
    const int failed = errno;
    if (code == PW_OK) code = read_lines(&r, text, num_bytes);
    if (code == PW_OK) code = check_complete(&r);
    free(text);
    errno = failed;
    return code;
}

/* ---- what it means for a process without Python */

static int refuse_class(pw_sentence *reason, const char *setting, const char *value)
{
    return pw_sentence_refuse(reason, PW_ERR_INVALID,
                              "%s = '%.*s' is a class in Python, which a program without Python "
                              "cannot ask; take a built-in one (`pagewire info` lists them)",
                              setting, QUOTED_BYTES, value);
}

int pw_node_config_check_native(const pw_node_config *config, pw_sentence *reason)
{
    const pw_node_run *run = &config->run;
    if (!pw_strategy_find(run->memory)) return refuse_class(reason, "run.memory", run->memory);
    if (config->settings.policy == PW_POLICY_HOST)
        return refuse_class(reason, "run.policy", run->policy);
    if (config->settings.err_by == PW_ERRS_BY_HOST)
        return refuse_class(reason, "driver.err_by", run->err_by);
    if (strcmp(run->scheduling, "size") != 0)
        return refuse_class(reason, "firmware.scheduling", run->scheduling);
    return PW_OK;
}
