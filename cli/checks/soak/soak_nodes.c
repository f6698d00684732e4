/* A soak without processes: the nodes of a run in this one, by the C interface. They write to and
 * read from each other in bursts, every byte is compared, and what the process holds is sampled.
 *
 *     pagewire-soak NODES TRANSFERS SAMPLES SEED FAULT_MILLIONTHS SECONDS [section.name=value]...
 *
 * Prints one line of JSON. Exit code: 0, whatever was found; 1: a call failed, with a sentence. */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "include/pagewire.h"

#define NODES_MAX 16
#define BURST 8 /* operations of a node that are under way together */
#define BYTES_MAX 40000
#define SLOT_BYTES 49152
#define PATTERN_BYTES (1 << 20)
#define PAGE_BYTES 4096
#define SETTINGS_MAX 64

typedef struct {
    pagewire_operation *operation;
    uint8_t *destination;
    const uint8_t *due;
    uint32_t num_bytes;
} under_way;

typedef struct {
    uint32_t num_nodes;
    pagewire_node *nodes[NODES_MAX];
    uint8_t *patterns[NODES_MAX]; /* what a node writes, and what is read from it */
    uint64_t keys[NODES_MAX];
    uint8_t *slots; /* BURST of each node, that one of its operations fills each */
    uint64_t drawn, fault_millionths;
    uint64_t num_transfers, num_wrong, num_dropped;
} soak;

static uint64_t draw(soak *self)
{
    uint64_t value = (self->drawn += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "pagewire-soak: %s: %s\n", what, why);
    exit(1);
}

static uint8_t *pages(size_t num_bytes)
{
    uint8_t *made =
        mmap(NULL, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) die("memory", "the host has none; take fewer nodes");
    madvise(made, num_bytes, MADV_NOHUGEPAGE);
    return made;
}

static void create(soak *self, const char *const *settings)
{
    char reason[512] = "no memory";
    pagewire_options options;
    pagewire_options_default(&options);
    if (pagewire_network_create(self->num_nodes, &options.network) < 0) die("network", reason);
    options.settings = settings;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    for (options.node = 0; options.node < self->num_nodes; options.node++) {
        uint32_t i = options.node;
        if (pagewire_node_create(&options, &self->nodes[i]) < 0) die("node", reason);
        self->patterns[i] = pages(PATTERN_BYTES + BYTES_MAX);
        for (uint32_t at = 0; at < PATTERN_BYTES + BYTES_MAX; at++)
            self->patterns[i][at] = (uint8_t)draw(self);
        if (pagewire_register(self->nodes[i], self->patterns[i], PATTERN_BYTES + BYTES_MAX,
                              &self->keys[i]) < 0)
            die("register", pagewire_reason(self->nodes[i]));
    }
    self->slots = pages((size_t)self->num_nodes * BURST * SLOT_BYTES);
}

/* Small ones are the most, as in programs. */
static uint32_t draw_bytes(soak *self)
{
    uint32_t limit = 1u << draw(self) % 17;
    return 1 + (uint32_t)(draw(self) % (limit < BYTES_MAX ? limit : BYTES_MAX));
}

static void drop_pages(soak *self, uint8_t *slot, uint32_t num_bytes)
{
    for (uint32_t at = 0; at < num_bytes; at += PAGE_BYTES) {
        if (draw(self) % 1000000 >= self->fault_millionths) continue;
        madvise(slot + at, PAGE_BYTES, MADV_DONTNEED);
        self->num_dropped++;
    }
}

static void post(soak *self, uint32_t node, uint32_t number, under_way *out)
{
    uint32_t peer = (node + 1 + (uint32_t)(draw(self) % (self->num_nodes - 1))) % self->num_nodes;
    uint8_t *slot = self->slots + (size_t)(node * BURST + number) * SLOT_BYTES;
    uint64_t place = draw(self) % PATTERN_BYTES;
    bool is_read = draw(self) % 2;
    out->num_bytes = draw_bytes(self);
    drop_pages(self, slot, out->num_bytes);
    out->destination = slot + draw(self) % 64;
    out->due = self->patterns[is_read ? peer : node] + place;
    int code = is_read
                   ? pagewire_read(self->nodes[node], peer, (uintptr_t)out->due, self->keys[peer],
                                   out->destination, out->num_bytes, NULL, &out->operation)
                   : pagewire_write(self->nodes[node], peer, out->due, (uintptr_t)out->destination,
                                    out->num_bytes, NULL, &out->operation);
    if (code < 0) die("transfer", pagewire_reason(self->nodes[node]));
}

static void burst(soak *self)
{
    under_way all[NODES_MAX][BURST];
    for (uint32_t number = 0; number < BURST; number++)
        for (uint32_t node = 0; node < self->num_nodes; node++)
            post(self, node, number, &all[node][number]);
    for (uint32_t node = 0; node < self->num_nodes; node++)
        for (uint32_t number = 0; number < BURST; number++) {
            under_way *each = &all[node][number];
            pagewire_completion completion;
            if (pagewire_wait(self->nodes[node], &each->operation, &completion, -1) < 0)
                die("wait", pagewire_reason(self->nodes[node]));
            if (completion.error) die("transfer", pagewire_error_text(completion.error));
            self->num_transfers++;
        }
    for (uint32_t node = 0; node < self->num_nodes; node++)
        for (uint32_t number = 0; number < BURST; number++) {
            const under_way *each = &all[node][number];
            self->num_wrong += memcmp(each->destination, each->due, each->num_bytes) != 0;
            *each->destination ^= 0xff; /* what is not written next time must not look right */
        }
}

static uint64_t resident_bytes(void)
{
    uint64_t all_pages = 0, resident_pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%" SCNu64 " %" SCNu64, &all_pages, &resident_pages) != 2)
        die("/proc/self/statm", "cannot be read");
    fclose(statm);
    return resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t num_files(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) die("/proc/self/fd", "cannot be read");
    while (readdir(folder)) count++;
    closedir(folder);
    return count - 3; /* . and .. and itself */
}

static void print_sample(const soak *self, bool is_first)
{
    uint64_t pending = 0;
    for (uint32_t i = 0; i < self->num_nodes; i++) pending += pagewire_num_pending(self->nodes[i]);
    printf("%s{\"transfers\": %" PRIu64 ", \"resident_bytes\": %" PRIu64 ", \"files\": %u, ",
           is_first ? "" : ", ", self->num_transfers, resident_bytes(), num_files());
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    struct mallinfo2 heap = mallinfo2();
    printf("\"heap_bytes\": %zu, ", heap.uordblks + heap.hblkhd);
#endif
    printf("\"pool_pending\": %" PRIu64 "}", pending);
}

static void print_counters(const soak *self)
{
    for (uint32_t i = 0; i < pagewire_num_counters(); i++) {
        const char *name = pagewire_counter_name(i);
        uint64_t sum = 0, value;
        for (uint32_t node = 0; node < self->num_nodes; node++)
            if (pagewire_read_counter(self->nodes[node], name, &value) == PAGEWIRE_OK) sum += value;
        printf("%s\"%s\": %" PRIu64, i ? ", " : "", name, sum);
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    static soak self;
    const char *settings[SETTINGS_MAX + 1] = {NULL};
    if (argc < 7 || argc - 7 > SETTINGS_MAX) die("usage", "see the head of soak_nodes.c");
    self.num_nodes = (uint32_t)strtoul(argv[1], NULL, 10);
    uint64_t wanted = strtoull(argv[2], NULL, 10), num_samples = strtoull(argv[3], NULL, 10);
    self.drawn = strtoull(argv[4], NULL, 10);
    self.fault_millionths = strtoull(argv[5], NULL, 10);
    double start_s = now_s(), end_s = start_s + strtod(argv[6], NULL);
    if (self.num_nodes < 2 || self.num_nodes > NODES_MAX || !num_samples)
        die("NODES", "must be from 2 to 16, SAMPLES 1 or more");
    for (int i = 7; i < argc; i++) settings[i - 7] = argv[i];
    create(&self, settings);
    uint64_t a_sample = (wanted + num_samples - 1) / num_samples, next = a_sample;
    bool is_first = true;
    printf("{\"samples\": [");
    while (self.num_transfers < wanted) {
        burst(&self);
        if (self.num_transfers < next) continue;
        next += a_sample;
        print_sample(&self, is_first);
        is_first = false;
        if (now_s() > end_s) break;
    }
    printf("], \"transfers\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"dropped_pages\": %" PRIu64
           ", \"wall_s\": %.3f, \"counters\": {",
           self.num_transfers, self.num_wrong, self.num_dropped, now_s() - start_s);
    print_counters(&self);
    printf("}}\n");
    return 0;
}
