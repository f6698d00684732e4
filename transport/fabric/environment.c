#include "transport/fabric/environment.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/fabric/process.h"
#include "transport/marks/rank.h"
#include "transport/node/output_file.h"

static pw_fi_host_hooks hooks;

int pagewire_fabric_set_hooks(const pw_fi_host_hooks *given)
{
    if (given->struct_size != sizeof hooks) return PW_ERR_INVALID;
    hooks = *given;
    return PW_OK;
}

bool pw_fi_hooks_read(pw_fi_host_hooks *out)
{
    *out = hooks;
    return hooks.struct_size != 0;
}

uint32_t pw_fi_rank_of_environment(void)
{
    return (uint32_t)strtoul(pagewire_rank_text(), NULL, 10);
}

bool pw_fi_is_spawned(void) { return pagewire_is_spawned(); }

/* A lock on a file that lasts as long as the process: a number is one process's at a time. A
 * spawned one takes a file that was not there: peers of a process that has ended still know its
 * number. 1: it is this one's now, 0: another's; negative: errno tells. */
static int lock_number(const char *directory, uint32_t node, bool is_spawned)
{
    char path[PW_OUTPUT_PATH_BYTES];
    if (pw_output_path(path, "%s/%u.node", directory, node) < 0) return PW_ERR_INVALID;
    const int descriptor =
        open(path, O_RDWR | O_CREAT | O_CLOEXEC | (is_spawned ? O_EXCL : 0), 0600);
    if (descriptor < 0) return errno == EEXIST ? 0 : PW_ERR_HOST;
    if (!flock(descriptor, LOCK_EX | LOCK_NB)) return 1;
    const int saved = errno;
    close(descriptor);
    errno = saved;
    return saved == EWOULDBLOCK ? 0 : PW_ERR_HOST;
}

int pw_fi_claim_node(uint32_t machine_nodes, uint32_t num_nodes, uint32_t *out)
{
    char sentence[PW_CONFIG_REASON_BYTES];
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    uint32_t node = pw_fi_rank_of_environment();
    const bool is_spawned = pw_fi_is_spawned();
    if (!directory || !*directory) {
        if (!is_spawned) {
            *out = node;
            return 0;
        }
        pw_fi_say("a spawned process needs PAGEWIRE_LAUNCH_DIR to find a node number that is free");
        return FI_EINVAL;
    }
    int code = is_spawned ? 0 : lock_number(directory, node, false);
    if (is_spawned)
        for (node = machine_nodes;
             node < num_nodes && !(code = lock_number(directory, node, true));)
            node++;
    if (code > 0) {
        *out = node;
        return 0;
    }
    if (code < 0)
        snprintf(sentence, sizeof sentence, "'%s/%u.node' cannot be locked: %s", directory, node,
                 strerror(errno));
    else if (is_spawned)
        snprintf(sentence, sizeof sentence,
                 "more than %u processes spawned: no node number is left",
                 num_nodes - machine_nodes);
    else
        snprintf(sentence, sizeof sentence,
                 "another process is node %u of this run: give each run a folder of its own", node);
    pw_fi_say(sentence);
    pw_fi_leave_note(sentence);
    return FI_EIO;
}

/* As JSON has it; what does not fit is cut. */
static void escape(char *out, size_t room, const char *text)
{
    size_t length = 0;
    for (; *text && length + 7 < room; text++) {
        const unsigned char each = (unsigned char)*text;
        if (each == '"' || each == '\\') out[length++] = '\\';
        if (each >= ' ') out[length++] = (char)each;
        else length += (size_t)snprintf(out + length, 7, "\\u%04x", each);
    }
    out[length] = '\0';
}

void pw_fi_leave_note(const char *sentence)
{
    char path[PW_OUTPUT_PATH_BYTES], reason[2 * PW_CONFIG_REASON_BYTES],
        text[2 * PW_CONFIG_REASON_BYTES + 128];
    const char *directory = getenv("PAGEWIRE_LAUNCH_DIR");
    const uint32_t rank = pw_fi_rank_of_environment();
    const bool is_spawned = pw_fi_is_spawned(); /* its rank is not one of the launcher's */
    if (!directory || !*directory ||
        pw_output_path(path, "%s/%s%u.note", directory, is_spawned ? "spawned-" : "", rank) < 0)
        return;
    escape(reason, sizeof reason, sentence);
    const int num_bytes = snprintf(
        text, sizeof text, "{\"rank\": %u, \"time_ns\": %lld, \"code\": 1, \"reason\": \"%s: %s\"}",
        rank, (long long)pw_clock_wall_ns(), is_spawned ? "among those spawned failed" : "failed",
        reason);
    (void)pw_output_write(path, text, (size_t)num_bytes); /* the sentence has been printed */
}
