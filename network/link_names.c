/* Links by their names, as people read and write them. */
#include "network/topology_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_FILE_MAX 4194304
#define SHOWN 100 /* characters of what is wrong */

typedef struct {
    uint32_t a, b, cable; /* of a router: a alone */
    bool is_router, is_found;
} name;

/* A router: its number, or in a fat tree "node 3" or "switch 1 of level 2". */
static bool read_end(const pw_topology *topology, const char **text, uint32_t *out)
{
    const pw_fat_tree *tree = &topology->tree;
    uint32_t level;
    int used = 0;
    if (sscanf(*text, "%u%n", out, &used) != 1 && topology->kind == &pw_topology_fat_tree &&
        sscanf(*text, "node %u%n", out, &used) != 1) {
        if (sscanf(*text, "switch %u of level %u%n", out, &level, &used) != 2 || level == 0 ||
            level > tree->num_levels)
            return false;
        *out += tree->first_router[level];
    }
    *text += used;
    return used > 0;
}

static bool read_ends(const pw_topology *topology, const char **text, name *out)
{
    if (!read_end(topology, text, &out->a) || strncmp(*text, " to ", 4) != 0) return false;
    *text += 4;
    return read_end(topology, text, &out->b);
}

/* One name; *text goes behind it. False: something else stands there. */
static bool read_name(const pw_topology *topology, const char **text, name *out)
{
    const uint32_t size = topology->kind == &pw_topology_qfdb ? topology->per_board : 0;
    uint32_t board;
    int used = 0, more = 0;
    *out = (name){0};
    if (sscanf(*text, "router %u%n", &out->a, &used) == 1) {
        out->is_router = true;
    } else if (sscanf(*text, "F%u to F%u of QFDB %u%n", &out->a, &out->b, &board, &used) == 3) {
        if (out->a >= size || out->b >= size) return false;
        out->a += board * size;
        out->b += board * size;
    } else if (sscanf(*text, "F0 of QFDB %u to %u%n", &out->a, &out->b, &used) == 2) {
        out->a *= size;
        out->b *= size;
    } else if (!read_ends(topology, text, out)) return false;
    *text += used;
    if (!out->is_router && sscanf(*text, ", cable %u%n", &out->cable, &more) == 1) *text += more;
    return true;
}

/* How many names there are, or 0 with the reason; *out is the caller's. */
static uint32_t read_list(pw_topology *topology, const char *text, name **out)
{
    const char *const between = " \t\r\n,;";
    uint32_t count = 0, capacity = 0;
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        if (count == capacity) {
            name *more = reallocarray(*out, capacity = 2 * capacity + 16, sizeof *more);
            if (!more) return 0;
            *out = more;
        }
        const char *begin = text;
        if (!read_name(topology, &text, &(*out)[count++])) {
            pw_topology_refuse(topology,
                               "links '%.*s': allowed are names as in '2 to 3, cable 1; F0 to F2 "
                               "of QFDB 1; F0 of QFDB 1 to 2; router 5', or the path of a file "
                               "of them",
                               SHOWN, begin);
            return 0;
        }
    }
    if (!count) pw_topology_refuse(topology, "links: no name is among them");
    return count;
}

static bool is_named(const name *each, const pw_topology_link *link, bool is_inwards)
{
    if (each->is_router) return link->target == each->a || (!is_inwards && link->source == each->a);
    return link->cable == each->cable && ((link->source == each->a && link->target == each->b) ||
                                          (link->source == each->b && link->target == each->a));
}

static bool mark(pw_topology *topology, name *names, uint32_t count, bool is_inwards,
                 uint64_t *bits)
{
    for (uint32_t link = 0; link < topology->num_links; link++) {
        pw_topology_link its;
        pw_topology_link_at(topology, link, &its);
        for (uint32_t i = 0; i < count && its.source != its.target; i++) {
            if (!is_named(&names[i], &its, is_inwards)) continue;
            names[i].is_found = true;
            pw_topology_set_bit(bits, link);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (names[i].is_found) continue;
        if (names[i].is_router)
            return pw_topology_refuse(topology, "router %u: it has no links; there are %u routers",
                                      names[i].a, topology->num_routers);
        return pw_topology_refuse(topology,
                                  "link %u to %u, cable %u (routers by number): there is none; "
                                  "pagewire replay with network.model=links names those used",
                                  names[i].a, names[i].b, names[i].cable);
    }
    return true;
}

/* The file's text, which is the caller's; NULL with the reason, or without memory. */
static char *text_of_file(pw_topology *topology, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        pw_topology_refuse(topology,
                           "links '%.*s': neither names as in '2 to 3; router 5', nor a file: %s",
                           SHOWN, path, strerror(errno));
        return NULL;
    }
    char *text = malloc(NAMES_FILE_MAX + 1);
    if (text) {
        const size_t num_bytes = fread(text, 1, NAMES_FILE_MAX, file);
        text[num_bytes] = '\0';
        if (num_bytes == NAMES_FILE_MAX) {
            pw_topology_refuse(topology, "links '%.*s': a file is shorter than %d bytes", SHOWN,
                               path, NAMES_FILE_MAX);
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

bool pw_topology_read_names(pw_topology *topology, const char *names, bool is_inwards,
                            uint64_t **bits)
{
    const bool is_list = strstr(names, " to ") || !strncmp(names, "router ", 7);
    char *text = is_list ? strdup(names) : text_of_file(topology, names);
    name *list = NULL;
    *bits = calloc(topology->num_links / 64 + 1, sizeof **bits);
    const uint32_t count = text && *bits ? read_list(topology, text, &list) : 0;
    const bool is_good = count && mark(topology, list, count, is_inwards, *bits);
    free(text);
    free(list);
    return is_good;
}
