#include "driver/faulting_blocks.h"
#include <stdlib.h>

#define FIRST_CHUNK_BLOCKS 64u

struct pw_faulting_chunk {
    struct pw_faulting_chunk *next;
    pw_faulting_block blocks[];
};

void pw_faulting_blocks_init(pw_faulting_blocks *table)
{
    *table = (pw_faulting_blocks){.chunk_blocks = FIRST_CHUNK_BLOCKS};
}

void pw_faulting_blocks_destroy(pw_faulting_blocks *table)
{
    while (table->chunks) {
        struct pw_faulting_chunk *chunk = table->chunks;
        table->chunks = chunk->next;
        free(chunk);
    }
    pw_faulting_blocks_init(table);
}

static uint32_t bucket(uint32_t source_node, uint16_t pdid, uint16_t transaction_id)
{
    uint64_t key = (uint64_t)source_node << 32 | (uint64_t)pdid << 16 | transaction_id;
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PW_FAULTING_BUCKETS;
}

static int more_blocks(pw_faulting_blocks *table)
{
    struct pw_faulting_chunk *chunk =
        malloc(sizeof *chunk + table->chunk_blocks * sizeof *chunk->blocks);
    if (!chunk) return PW_ERR_NOMEM;
    chunk->next = table->chunks;
    table->chunks = chunk;
    for (uint32_t i = 0; i < table->chunk_blocks; i++) {
        chunk->blocks[i].next = table->free_blocks;
        table->free_blocks = &chunk->blocks[i];
    }
    table->chunk_blocks *= 2;
    return PW_OK;
}

static bool has_numbers(const pw_faulting_block *block, uint32_t source_node, uint16_t pdid,
                        uint16_t transaction_id, uint16_t sequence)
{
    const pw_fault *fault = &block->fault;
    return fault->source_node == source_node && fault->pdid == pdid &&
           fault->transaction_id == transaction_id && fault->sequence == sequence;
}

pw_faulting_block *pw_faulting_blocks_of_entry(const pw_faulting_blocks *table,
                                               uint32_t source_node, uint16_t pdid,
                                               uint16_t transaction_id, uint16_t sequence)
{
    pw_faulting_block *oldest = NULL; /* the chain's newest stands first */
    pw_faulting_block *block = table->buckets[bucket(source_node, pdid, transaction_id)];
    for (; block; block = block->next)
        if (block->num_entries && has_numbers(block, source_node, pdid, transaction_id, sequence))
            oldest = block;
    return oldest;
}

pw_faulting_block *pw_faulting_blocks_find(const pw_faulting_blocks *table, const pw_fault *fault)
{
    uint32_t home = bucket(fault->source_node, fault->pdid, fault->transaction_id);
    pw_faulting_block *block = table->buckets[home];
    while (block && !(block->fault.identity == fault->identity &&
                      has_numbers(block, fault->source_node, fault->pdid, fault->transaction_id,
                                  fault->sequence)))
        block = block->next;
    return block;
}

pw_faulting_block *pw_faulting_blocks_note(pw_faulting_blocks *table, const pw_fault *fault)
{
    pw_faulting_block *block = pw_faulting_blocks_find(table, fault);
    if (block) {
        block->fault = *fault; /* the notification's page has bounds of its own */
        return block;
    }
    if (!table->free_blocks && more_blocks(table) < 0) return NULL;
    block = table->free_blocks;
    table->free_blocks = block->next;
    uint32_t home = bucket(fault->source_node, fault->pdid, fault->transaction_id);
    *block = (pw_faulting_block){.next = table->buckets[home], .fault = *fault};
    table->buckets[home] = block;
    return block;
}

void pw_faulting_blocks_release(pw_faulting_blocks *table, pw_faulting_block *block)
{
    if (block->num_entries || block->err_pending) return;
    const pw_fault *fault = &block->fault;
    pw_faulting_block **link =
        &table->buckets[bucket(fault->source_node, fault->pdid, fault->transaction_id)];
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    block->next = table->free_blocks;
    table->free_blocks = block;
}
