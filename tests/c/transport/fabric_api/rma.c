/* Reads and writes of a peer's memory: every form, more than there are channels, and what must not
 * be reached. */
#include "api.h"

#include <sys/mman.h>

#define WINDOW_BYTES (8u << 20)
#define DATA UINT64_C(0x8000000000000001)

typedef struct {
    uint64_t address, key;
} place;

/* Process 1's memory, seen by both. */
typedef struct {
    place at;
    char *memory; /* NULL: it is the peer's */
    struct fid_mr *region;
} window;

static void share(api *self, place *at)
{
    place all[API_PROCESSES_MAX];
    api_gather(self, at, sizeof *at, all);
    *at = all[1];
}

static void *map_pages(size_t num_bytes)
{
    void *pages = mmap(NULL, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    return pages;
}

static window open_window(api *self)
{
    window out = {0};
    if (self->rank == 1) {
        out.memory = map_pages(WINDOW_BYTES);
        SAME(fi_mr_reg(self->domain, out.memory, WINDOW_BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                       0, 0, &out.region, NULL),
             0);
        out.at = (place){(uintptr_t)out.memory, fi_mr_key(out.region)};
    }
    share(self, &out.at);
    return out;
}

static void close_window(const window *open)
{
    if (!open->memory) return;
    SAME(fi_close(&open->region->fid), 0);
    munmap(open->memory, WINDOW_BYTES);
}

static void end_of(api *self, uint64_t flags, const void *context)
{
    const struct fi_cq_tagged_entry entry = api_wait(self->main.tx, NULL);
    SAME(entry.flags, flags);
    CHECK(entry.op_context == context);
}

static void check_there(api *self, const window *open, size_t num_bytes, uint32_t seed)
{
    api_barrier(self);
    if (open->memory) CHECK(api_is_filled(open->memory, num_bytes, seed));
    api_barrier(self);
}

API_CASE(transfers, 2)
{
    const window open = open_window(self);
    const size_t limit = self->info->tx_attr->inject_size;
    const size_t sizes[] = {0, 1, limit, 65536, 100001, 5u << 20};
    uint32_t seed = 0, num_reads = 0, num_writes = 0;
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t peer = self->main.peers[1];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t num_bytes = sizes[i], half = num_bytes / 2;
        char *buffer = malloc(num_bytes + 1), *back = malloc(num_bytes + 1);
        const struct iovec out[] = {{buffer, half}, {buffer + half, num_bytes - half}},
                           in[] = {{back, half}, {back, 0}, {back + half, num_bytes - half}};
        const struct fi_rma_iov remote = {open.at.address, num_bytes, open.at.key};
        const struct fi_msg_rma write_message = {out, NULL, 2, peer, &remote, 1, buffer, DATA},
                                read_message = {in, NULL, 3, peer, &remote, 1, back, 0};
        for (int form = 0; form < 4; form++, seed++) {
            if (self->rank == 0) {
                api_fill(buffer, num_bytes, seed);
                if (form == 0)
                    SAME(fi_write(ep, buffer, num_bytes, NULL, peer, open.at.address, open.at.key,
                                  buffer),
                         0);
                if (form == 1)
                    SAME(fi_writev(ep, out, NULL, 2, peer, open.at.address, open.at.key, buffer),
                         0);
                if (form == 2) SAME(fi_writemsg(ep, &write_message, FI_COMPLETION), 0);
                if (form == 3) {
                    const ssize_t code =
                        fi_inject_write(ep, buffer, num_bytes, peer, open.at.address, open.at.key);
                    SAME(code, num_bytes > limit ? -FI_EMSGSIZE : 0);
                    if (code)
                        SAME(fi_write(ep, buffer, num_bytes, NULL, peer, open.at.address,
                                      open.at.key, NULL),
                             0);
                    else memset(buffer, 0, num_bytes);
                }
                num_writes++;
                if (form < 3) end_of(self, FI_RMA | FI_WRITE, buffer);
                SAME(fi_cntr_wait(self->main.written, num_writes, -1), 0);
                if (form == 3 && num_bytes > limit) end_of(self, FI_RMA | FI_WRITE, NULL);
            }
            check_there(self, &open, num_bytes, seed);
            if (self->rank == 0 && form < 3) {
                memset(back, 0, num_bytes + 1);
                if (form == 0)
                    SAME(fi_read(ep, back, num_bytes, NULL, peer, open.at.address, open.at.key,
                                 back),
                         0);
                if (form == 1)
                    SAME(fi_readv(ep, in, NULL, 3, peer, open.at.address, open.at.key, back), 0);
                if (form == 2) SAME(fi_readmsg(ep, &read_message, FI_COMPLETION), 0);
                num_reads++;
                end_of(self, FI_RMA | FI_READ, back);
                SAME(fi_cntr_read(self->main.read), num_reads);
                CHECK(api_is_filled(back, num_bytes, seed) && !back[num_bytes]);
            }
            api_barrier(self);
        }
        free(buffer);
        free(back);
    }
    if (self->rank == 0) api_check_silent(self->main.tx);
    close_window(&open);
}

/* The data that a write brings comes after its bytes. */
API_CASE(remote_data, 2)
{
    static char buffer[100000];
    const window open = open_window(self);
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t peer = self->main.peers[1];
    const size_t sizes[] = {100000, 0, 8};
    for (uint32_t i = 0; i < 3; i++) {
        fi_addr_t source;
        if (self->rank == 0) {
            api_fill(buffer, sizes[i], i);
            if (i < 2) {
                SAME(fi_writedata(ep, buffer, sizes[i], NULL, DATA + i, peer, open.at.address,
                                  open.at.key, buffer),
                     0);
                end_of(self, FI_RMA | FI_WRITE, buffer);
            } else
                SAME(fi_inject_writedata(ep, buffer, sizes[i], DATA + i, peer, open.at.address,
                                         open.at.key),
                     0);
        } else {
            const struct fi_cq_tagged_entry entry = api_wait(self->main.rx, &source);
            SAME(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
            SAME(entry.data, DATA + i);
            SAME(source, self->main.peers[0]);
            CHECK(api_is_filled(open.memory, sizes[i], i));
        }
        api_barrier(self);
    }
    SAME(fi_cntr_read(self->main.received), 0); /* a write is no message */
    close_window(&open);
}

/* More than the NI has channels; some of those that wait cannot be done at all. */
API_CASE(many, 2)
{
    enum { NUM_WRITES = 100, BYTES = 60000 };
    static char buffers[NUM_WRITES][BYTES];
    bool seen[NUM_WRITES] = {false};
    const window open = open_window(self);
    if (self->rank == 0) {
        uint32_t num_failed = 0;
        for (uint32_t i = 0; i < NUM_WRITES; i++) {
            const bool is_bad = i % 30 == 20; /* its range reaches the end of all addresses */
            api_fill(buffers[i], BYTES, i);
            SAME(fi_write(self->main.ep, buffers[i], BYTES, NULL, self->main.peers[1],
                          is_bad ? UINT64_MAX - 100 : open.at.address + (uint64_t)i * BYTES,
                          open.at.key, buffers[i]),
                 0);
        }
        for (uint32_t i = 0; i < NUM_WRITES; i++) {
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry error = {0};
            ssize_t count;
            while ((count = fi_cq_read(self->main.tx, &entry, 1)) == -FI_EAGAIN) continue;
            if (count < 0) {
                SAME(fi_cq_readerr(self->main.tx, &error, 0), 1);
                SAME(error.err, FI_EFAULT);
                entry.op_context = error.op_context;
                num_failed++;
            }
            const size_t which = (size_t)((char *)entry.op_context - buffers[0]) / BYTES;
            CHECK(which < NUM_WRITES && !seen[which] && (which % 30 == 20) == (count < 0));
            seen[which] = true;
        }
        SAME(num_failed, 3);
        SAME(fi_cntr_read(self->main.written), NUM_WRITES - 3);
        SAME(fi_cntr_readerr(self->main.written), 3);
    }
    api_barrier(self);
    if (self->rank == 1)
        for (uint32_t i = 0; i < NUM_WRITES; i++)
            if (i % 30 != 20) CHECK(api_is_filled(open.memory + i * BYTES, BYTES, i));
    api_barrier(self);
    close_window(&open);
}

/* operation: FI_READ or FI_WRITE. */
static void fails(api *self, uint64_t operation, void *buffer, size_t num_bytes, uint64_t address,
                  uint64_t key)
{
    struct fid_ep *ep = self->main.ep;
    const fi_addr_t there = self->main.peers[1];
    SAME(operation == FI_READ ? fi_read(ep, buffer, num_bytes, NULL, there, address, key, buffer)
                              : fi_write(ep, buffer, num_bytes, NULL, there, address, key, buffer),
         0);
    const struct fi_cq_err_entry error = api_wait_error(self->main.tx);
    CHECK(error.op_context == buffer);
    SAME(error.flags, FI_RMA | operation);
    CHECK(error.err == FI_EACCES || error.err == FI_EFAULT);
}

API_CASE(forbidden, 2)
{
    static char buffer[100000];
    struct fid_mr *region = NULL;
    place closed = {0}, absent = {0};
    const window open = open_window(self);
    if (self->rank == 1) {
        SAME(fi_mr_reg(self->domain, open.memory, 4096, FI_REMOTE_READ, 0, 0, 0, &region, NULL), 0);
        closed = (place){open.at.address, fi_mr_key(region)};
        SAME(fi_close(&region->fid), 0);
        char *pages = map_pages(1 << 20);
        SAME(fi_mr_reg(self->domain, pages, 1 << 20, FI_REMOTE_READ, 0, 0, 0, &region, NULL), 0);
        absent = (place){(uintptr_t)pages, fi_mr_key(region)};
        munmap(pages, 1 << 20);
    }
    share(self, &closed);
    share(self, &absent);
    if (self->rank == 0) {
        const uint64_t end = open.at.address + WINDOW_BYTES;
        void *gone = map_pages(200000);
        munmap(gone, 200000);
        fails(self, FI_READ, buffer, 8, open.at.address, open.at.key + 1);
        fails(self, FI_READ, buffer, 8, open.at.address, 0);
        fails(self, FI_READ, buffer, 8, open.at.address, UINT64_MAX);
        fails(self, FI_READ, buffer, 8, closed.address, closed.key);
        fails(self, FI_READ, buffer, 8, end, open.at.key);
        fails(self, FI_READ, buffer, 65536, end - 65535, open.at.key);
        fails(self, FI_READ, buffer, 8, open.at.address - 1, open.at.key);
        fails(self, FI_READ, buffer, 8, UINT64_MAX - 3, open.at.key);
        fails(self, FI_READ, buffer, 100000, absent.address, absent.key);
        fails(self, FI_READ, gone, 200000, open.at.address, open.at.key);
        fails(self, FI_WRITE, buffer, 100000, absent.address, absent.key);
        fails(self, FI_WRITE, buffer, 8, open.at.address, open.at.key + 1);
        fails(self, FI_WRITE, buffer, 8, open.at.address, closed.key);
        fails(self, FI_WRITE, buffer, 8, end, open.at.key);
        fails(self, FI_WRITE, buffer, 8, UINT64_MAX - 3, open.at.key);
        fails(self, FI_WRITE, gone, 200000, open.at.address, open.at.key);
        const struct iovec iov = {buffer, 8};
        struct fi_rma_iov remote[] = {{open.at.address, 9, open.at.key}, {0, 0, 0}};
        struct fi_msg_rma message = {&iov, NULL, 1, self->main.peers[1], remote, 1, NULL, 0};
        SAME(fi_writemsg(self->main.ep, &message, 0), -FI_EINVAL); /* other lengths */
        remote[0].len = 8;
        message.rma_iov_count = 2;
        SAME(fi_readmsg(self->main.ep, &message, 0), -FI_EINVAL);
        /* All goes on. */
        api_fill(buffer, sizeof buffer, 5);
        SAME(fi_write(self->main.ep, buffer, sizeof buffer, NULL, self->main.peers[1],
                      open.at.address, open.at.key, buffer),
             0);
        end_of(self, FI_RMA | FI_WRITE, buffer);
    }
    check_there(self, &open, sizeof buffer, 5);
    if (region) SAME(fi_close(&region->fid), 0);
    close_window(&open);
}

/* Reads of somebody who has no right key, or has one for other bytes: TRIES of them, A_TIME under
 * way together. */
API_CASE(thief, 2)
{
    enum { TRIES = 10000, A_TIME = 50 };
    static char buffer[A_TIME][64];
    place unreadable = {0};
    struct fid_mr *region = NULL;
    uint64_t drawn = 1;
    const window open = open_window(self);
    if (self->rank == 1) { /* peers may write to it, and no more */
        SAME(fi_mr_reg(self->domain, open.memory, WINDOW_BYTES, FI_REMOTE_WRITE, 0, 0, 0, &region,
                       NULL),
             0);
        unreadable = (place){(uintptr_t)open.memory, fi_mr_key(region)};
        api_fill(open.memory, WINDOW_BYTES, 9);
    }
    share(self, &unreadable);
    for (uint32_t tries = 0; self->rank == 0 && tries < TRIES; tries += A_TIME) {
        for (uint32_t i = 0; i < A_TIME; i++) {
            uint64_t key = open.at.key, address = open.at.address + drawn % 4096;
            drawn = drawn * 6364136223846793005u + 1442695040888963407u;
            switch (i % 5) {
            case 0: key = drawn; break;
            case 1: key ^= 1ull << drawn % 64; break;
            case 2: key = (uint64_t)(tries + i) << 32 | (open.at.key & UINT32_MAX); break;
            case 3: address += WINDOW_BYTES - 32; break;
            default: key = unreadable.key;
            }
            if (i % 5 == 2 && key == open.at.key) key = 0;
            SAME(fi_read(self->main.ep, buffer[i], sizeof buffer[i], NULL, self->main.peers[1],
                         address, key, buffer[i]),
                 0);
        }
        for (uint32_t i = 0; i < A_TIME; i++) {
            const struct fi_cq_err_entry error = api_wait_error(self->main.tx);
            CHECK(error.err == FI_EACCES);
        }
    }
    for (uint32_t i = 0; i < A_TIME; i++)
        for (uint32_t at = 0; at < sizeof buffer[i]; at++) CHECK(buffer[i][at] == 0);
    if (self->rank == 0) { /* all goes on */
        SAME(fi_read(self->main.ep, buffer, sizeof buffer, NULL, self->main.peers[1],
                     open.at.address, open.at.key, buffer),
             0);
        end_of(self, FI_RMA | FI_READ, buffer);
        CHECK(api_is_filled(buffer, sizeof buffer, 9));
    }
    check_there(self, &open, WINDOW_BYTES, 9);
    if (region) SAME(fi_close(&region->fid), 0);
    close_window(&open);
}

/* Buffers that the program gives back under their own messages. */
API_CASE(unmapped, 2)
{
    enum { BYTES = 5 << 20 };
    char *buffer = calloc(1, BYTES);
    struct fi_cq_tagged_entry entry;
    /* What peers map at their first message shall not take the place of what goes. */
    SAME(fi_tinject(self->main.ep, buffer, 1, self->main.peers[1 - self->rank], 1), 0);
    SAME(fi_trecv(self->main.ep, buffer, 1, NULL, FI_ADDR_UNSPEC, 1, 0, buffer), 0);
    api_wait(self->main.rx, NULL);
    api_barrier(self);
    char *gone = map_pages(BYTES);
    if (self->rank == 1) {
        SAME(fi_trecv(self->main.ep, gone, BYTES, NULL, FI_ADDR_UNSPEC, 1, 0, gone), 0);
        munmap(gone, BYTES);
        api_barrier(self);
        SAME(api_wait_error(self->main.rx).err, FI_EFAULT);
        api_barrier(self);
        SAME(fi_trecv(self->main.ep, buffer, BYTES, NULL, FI_ADDR_UNSPEC, 2, 0, buffer), 0);
        const int error = api_wait_error(self->main.rx).err; /* the sender's NI refused */
        CHECK(error == FI_EFAULT || error == FI_EACCES);
    } else {
        struct fi_cq_err_entry error;
        api_barrier(self);
        SAME(fi_tsend(self->main.ep, buffer, BYTES, NULL, self->main.peers[1], 1, buffer), 0);
        while (fi_cq_read(self->main.tx, &entry, 1) == -FI_EAGAIN) continue;
        (void)fi_cq_readerr(self->main.tx, &error, 0); /* one or the other: it ends */
        api_barrier(self);
        SAME(fi_tsend(self->main.ep, gone, BYTES, NULL, self->main.peers[1], 2, gone), 0);
        munmap(gone, BYTES);
        SAME(api_wait_error(self->main.tx).err, FI_EFAULT);
    }
    api_barrier(self);
    if (self->rank == 0)
        SAME(fi_tsend(self->main.ep, buffer, BYTES, NULL, self->main.peers[1], 3, buffer), 0);
    else SAME(fi_trecv(self->main.ep, buffer, BYTES, NULL, FI_ADDR_UNSPEC, 3, 0, buffer), 0);
    api_wait(self->rank ? self->main.rx : self->main.tx, NULL);
    free(buffer);
}
