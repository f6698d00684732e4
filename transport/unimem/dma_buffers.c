/* Buffers of the DMA library: pages of this node, and what its program knows of others'. */
#include "native/status.h"
#include "transport/unimem/dma_state.h"
#include <stdlib.h>
#include <sys/mman.h>

typedef unsigned long long printed;

/* Room for one more pointer or struct of row_bytes. */
static int grow(void **rows, uint32_t num_rows, uint32_t *capacity, size_t row_bytes)
{
    if (num_rows < *capacity) return PW_OK;
    uint32_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*rows, wanted * row_bytes);
    if (!grown) return PW_ERR_NOMEM;
    *rows = grown;
    *capacity = wanted;
    return PW_OK;
}

static void spend(pw_dma *dma, int table, uint64_t num_bytes)
{
    dma->node->clock.now_ns += pw_cost_bytes_ns(&dma->node->tables, table, num_bytes);
}

/* The NI may use them from now on. */
static int give_to_ni(pw_dma *dma, dma_pages *made)
{
    pw_node *node = dma->node;
    const pw_span span = {made->buffer.address, made->buffer.num_bytes};
    int code = pw_ni_register(node->ni, span.address, span.num_bytes, &made->buffer.key);
    if (code < 0)
        return pw_node_fail(node, code, "DMA buffer of %llu bytes", (printed)span.num_bytes);
    code = pw_node_acquire(node, span, PW_ACCESS_WRITE | PW_ACCESS_IN_PLACE, &made->lease);
    if (code < 0) pw_ni_unexpose(node->ni, made->buffer.key);
    return code;
}

int pw_dma_map(pw_dma *dma, uint64_t num_bytes, uint64_t id, dma_pages **out)
{
    int code =
        grow((void **)&dma->pages, dma->num_pages_rows, &dma->pages_capacity, sizeof *dma->pages);
    dma_pages *made = code == PW_OK ? calloc(1, sizeof *made) : NULL;
    if (!made) return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA buffer: no memory");
    made->mapped_bytes = num_bytes + PW_BLOCK_BYTES; /* blocks end alike in every run */
    made->mapped = mmap(NULL, made->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->mapped == MAP_FAILED) {
        free(made);
        return pw_node_fail(dma->node, PW_ERR_HOST, "mmap of a DMA buffer of %llu bytes",
                            (printed)num_bytes);
    }
    uint64_t address = (uintptr_t)made->mapped;
    made->buffer = (pw_dma_buffer){.id = id,
                                   .address = address + (-address & (PW_BLOCK_BYTES - 1)),
                                   .num_bytes = num_bytes,
                                   .node = pw_node_number(dma->node)};
    spend(dma, PW_COST_MMAP, num_bytes);
    code = give_to_ni(dma, made);
    if (code < 0) {
        munmap(made->mapped, made->mapped_bytes);
        free(made);
        return code;
    }
    made->is_live = true;
    dma->pages[dma->num_pages_rows++] = made;
    *out = made;
    return PW_OK;
}

int pw_dma_unmap(pw_dma *dma, dma_pages *pages)
{
    pw_node *node = dma->node;
    const pw_dma_buffer *buffer = &pages->buffer;
    pages->is_live = false;
    pw_ni_unexpose(node->ni, buffer->key);
    int code = pw_node_release(node, &pages->lease);
    spend(dma, PW_COST_MUNMAP, buffer->num_bytes);
    /* The addresses stay taken: a peer that does not know that the buffer has gone must not write
     * to what the program has there next. */
    if (mmap(pages->mapped, pages->mapped_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return pw_node_fail(node, PW_ERR_HOST, "a freed DMA buffer's addresses");
    uint64_t first_page = pw_page_of(buffer->address);
    uint64_t last_page = pw_page_of(buffer->address + buffer->num_bytes - 1);
    int dropped = pw_node_unmapped(node, first_page, last_page - first_page + 1);
    return code < 0 ? code : dropped;
}

dma_pages *pw_dma_own(const pw_dma *dma, uint64_t id)
{
    for (uint32_t i = 0; id && i < dma->num_pages_rows; i++)
        if (dma->pages[i]->is_live && dma->pages[i]->buffer.id == id) return dma->pages[i];
    return NULL;
}

int pw_dma_take_internal(pw_dma *dma, uint64_t num_bytes, dma_pages **out)
{
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (!each->is_live || each->buffer.id || each->is_used) continue;
        if (each->buffer.num_bytes < num_bytes) continue;
        each->is_used = true;
        *out = each;
        return PW_OK;
    }
    int code = pw_dma_map(dma, num_bytes, 0, out);
    if (code == PW_OK) (*out)->is_used = true;
    return code;
}

/* ---- this node's own */

uint32_t pw_dma_refused(const pw_dma *dma, uint64_t num_bytes, uint64_t *limit)
{
    int64_t max_bytes = dma->node->settings.dma_buffer_bytes;
    int64_t max_buffers = dma->node->settings.dma_buffers, num_buffers = 0;
    *limit = max_bytes < 0 || max_bytes > PW_DMA_BUFFER_MAX_BYTES ? PW_DMA_BUFFER_MAX_BYTES
                                                                  : (uint64_t)max_bytes;
    if (num_bytes == 0 || num_bytes > *limit) return REFUSED_SIZE;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++)
        num_buffers += dma->pages[i]->is_live && dma->pages[i]->buffer.id;
    *limit = (uint64_t)max_buffers;
    return max_buffers >= 0 && num_buffers >= max_buffers ? REFUSED_COUNT : REFUSED_NOT;
}

int pw_dma_make(pw_dma *dma, uint64_t num_bytes, dma_pages **out)
{
    uint64_t owner = pw_node_number(dma->node);
    int code = pw_dma_map(dma, num_bytes, owner << DMA_OWNER_SHIFT | (dma->last_number + 1), out);
    if (code == PW_OK) dma->last_number++;
    return code;
}

int pw_dma_allocate(pw_dma *dma, uint64_t num_bytes, uint64_t *id)
{
    dma_pages *made;
    dma_ask asked = {.what = ASK_ALLOCATE, .node = pw_node_number(dma->node), .value = num_bytes};
    asked.refusal = pw_dma_refused(dma, num_bytes, &asked.limit);
    if (asked.refusal) return pw_dma_fail_limit(dma, &asked);
    int code = pw_dma_make(dma, num_bytes, &made);
    if (code == PW_OK) code = pw_dma_know(dma, &made->buffer);
    if (code == PW_OK) *id = made->buffer.id;
    return code;
}

/* ---- what the program knows */

int pw_dma_know(pw_dma *dma, const pw_dma_buffer *buffer)
{
    if (pw_dma_find(dma, buffer->id)) return PW_OK;
    if (grow((void **)&dma->known, dma->num_known, &dma->known_capacity, sizeof *dma->known) < 0)
        return pw_node_fail(dma->node, PW_ERR_NOMEM, "DMA buffer: no memory");
    dma->known[dma->num_known++] = *buffer;
    return PW_OK;
}

void pw_dma_unknow(pw_dma *dma, uint64_t id)
{
    for (uint32_t i = 0; i < dma->num_known; i++)
        if (dma->known[i].id == id) {
            dma->known[i] = dma->known[--dma->num_known];
            return;
        }
}

const pw_dma_buffer *pw_dma_find(const pw_dma *dma, uint64_t id)
{
    for (uint32_t i = 0; id && i < dma->num_known; i++)
        if (dma->known[i].id == id) return &dma->known[i];
    return NULL;
}

/* ---- the library itself */

int pw_dma_create(pw_node *node, pw_dma **out)
{
    pw_dma *made = calloc(1, sizeof *made);
    if (!made) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for the DMA library");
    made->node = node;
    made->first_id = made->next_id = 1;
    *out = made;
    return PW_OK;
}

void pw_dma_destroy(pw_dma *dma)
{
    if (!dma) return;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (each->is_live) pw_dma_unmap(dma, each);
        munmap(each->mapped, each->mapped_bytes);
        free(each);
    }
    free(dma->pages);
    free(dma->known);
    free(dma->transfers);
    free(dma);
}

int pw_dma_open(pw_dma *dma)
{
    if (dma->is_open)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "the node's DMA library is open; a node has one, clean it up first");
    if (!dma->transfers) dma->transfers = calloc(PW_DMA_TRANSFERS, sizeof *dma->transfers);
    if (!dma->transfers) return pw_node_fail(dma->node, PW_ERR_NOMEM, "no memory for transfers");
    dma->is_open = true;
    return PW_OK;
}

int pw_dma_close(pw_dma *dma)
{
    uint32_t num_using = pw_dma_num_using(dma, 0);
    if (num_using)
        return pw_node_fail(dma->node, PW_ERR_FULL,
                            "%u transfers are not over; wait for them before the clean-up",
                            num_using);
    int code = PW_OK;
    for (uint32_t i = 0; i < dma->num_pages_rows; i++) {
        dma_pages *each = dma->pages[i];
        if (!each->is_live || each->is_used) continue; /* used: given up, its bytes may come */
        int freed = pw_dma_unmap(dma, each);
        if (code == PW_OK) code = freed;
    }
    dma->num_known = 0;
    dma->is_open = false;
    return code;
}
