#include "native/status.h"

typedef struct {
    const char *name, *text;
} status;

#define STATUS(code, text) [-(code)] = {#code, text}

static const status statuses[] = {
    STATUS(PW_ERR_NOMEM, "the host has no memory for a table; use fewer ranks or smaller tables"),
    STATUS(PW_ERR_INVALID,
           "an argument is out of its range; a transfer has at most 4294967296 bytes"),
    STATUS(PW_ERR_FULL, "a table or a limit is full; wait for transfers under way, or start fewer"),
    STATUS(PW_ERR_MALFORMED, "a frame failed its checks; use the same pagewire on all ranks"),
    STATUS(PW_ERR_ADDRESS,
           "an address is outside any mapping; keep buffers mapped until transfers end"),
    STATUS(PW_ERR_CONTEXT,
           "no context bank for the protection domain; raise smmu.num_context_banks"),
    STATUS(PW_ERR_PROTECTION,
           "the protection domain, key, bounds or mapping forbids the access; write only to "
           "writable memory, inside of what the peer has registered"),
    STATUS(PW_ERR_HOST, "a system call of the host failed"),
    STATUS(
        PW_ERR_UNRECOVERABLE,
        "nothing configured can bring the block through: every attempt of it failed, or its "
        "page cannot be had; raise run.timeout if it is below a block's round trip (some us), "
        "and allow ERRs (run.err); ni.engine = zdma sends nothing again, after a page fault or a "
        "loss: touch or pin buffers (run.memory = pretouch or pin), or take frdma"),
    STATUS(PW_ERR_DEADLOCK,
           "a read request keeps the acknowledgements behind it from being read; set "
           "firmware.read_mailbox to separate, or raise firmware.read_buffer_requests"),
    STATUS(PW_ERR_FRAMES, "pages of a transfer take each other's frames for ever; raise "
                          "memory_backend.frame_limit_pages"),
    STATUS(
        PW_ERR_RESIDENCY,
        "residency.check: the kernel has taken a page, or changed a mapping, and no event told of "
        "it: the program makes system calls of its own; take residency.source = kernel"),
};
_Static_assert(PW_TRANSFER_MAX_BYTES == 4294967296, "the text of PW_ERR_INVALID");

static const status *find(int code)
{
    int num_codes = (int)(sizeof statuses / sizeof *statuses);
    return code < 0 && code > -num_codes ? &statuses[-code] : &statuses[0];
}

const char *pw_status_name(int code) { return find(code)->name; }
const char *pw_status_text(int code) { return find(code)->text; }
