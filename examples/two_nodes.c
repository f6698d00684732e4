/* Two nodes in one process: a write to memory whose pages are absent, and a read back.
 *
 *     cc two_nodes.c $(pkg-config --cflags --libs pagewire) -o two_nodes && ./two_nodes */
#include <pagewire.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NUM_BYTES 65536
#define TABLE_BYTES 2097152 /* what a last-level page table maps: walks are alike in every run */

static pagewire_node *nodes[2];

static int must(int result, int node)
{
    if (result >= 0) return result;
    fprintf(stderr, "node %d: %s\n", node, pagewire_reason(nodes[node]));
    exit(1);
}

static unsigned char *fresh_pages(void)
{
    unsigned char *pages =
        mmap(NULL, 2 * TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) exit(1);
    madvise(pages, 2 * TABLE_BYTES, MADV_NOHUGEPAGE);
    return pages + (TABLE_BYTES - (uintptr_t)pages % TABLE_BYTES) % TABLE_BYTES;
}

static void finish(const char *what, int node, pagewire_operation *operation)
{
    pagewire_completion end;
    must(pagewire_wait(nodes[node], &operation, &end, -1), node);
    printf("%-18s complete at %9" PRId64 " ns: %s\n", what, end.complete_ns,
           end.error ? pagewire_error_text(end.error) : "ok");
}

int main(int num_arguments, char **arguments)
{
    /* The arguments are settings: ./two_nodes run.policy=all firmware.window_blocks=4 */
    const char *settings[16] = {"run.compute=none"};
    for (int i = 1; i < num_arguments && i < 15; i++) settings[i] = arguments[i];
    char reason[512];
    pagewire_options options;
    pagewire_options_default(&options);
    pagewire_network_create(2, &options.network);
    options.settings = settings;
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    for (options.node = 0; options.node < 2; options.node++)
        if (pagewire_node_create(&options, &nodes[options.node]) < 0) {
            fprintf(stderr, "%s\n", reason);
            return 1;
        }

    unsigned char *source = fresh_pages(), *there = fresh_pages(), *back = fresh_pages();
    pagewire_operation *operation;
    uint64_t key, num_pages;
    memset(source, 7, NUM_BYTES); /* resident; there and back are not */
    must(pagewire_register(nodes[1], there, NUM_BYTES, &key), 1);

    must(pagewire_write(nodes[0], 1, source, (uintptr_t)there, NUM_BYTES, NULL, &operation), 0);
    finish("write", 0, operation);
    must(pagewire_read(nodes[0], 1, (uintptr_t)there, key, back, NUM_BYTES, NULL, &operation), 0);
    finish("read", 0, operation);
    must(pagewire_read(nodes[0], 1, (uintptr_t)there, key + 1, back, 1, NULL, &operation), 0);
    finish("read, wrong key", 0, operation);

    for (int node = 0; node < 2; node++) {
        must(pagewire_read_counter(nodes[node], "pages_paged_in", &num_pages), node);
        printf("node %d paged in %" PRIu64 " pages\n", node, num_pages);
    }
    printf("bytes are %s\n", memcmp(source, back, NUM_BYTES) ? "DIFFERENT" : "the same");
    pagewire_node_destroy(nodes[0]);
    pagewire_node_destroy(nodes[1]);
    pagewire_network_destroy(options.network);
    return 0;
}
