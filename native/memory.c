/* Page residency: checks ranges and hands them to the backend. See memory.h. */
#include "native/memory.h"

#include "native/memory_backend.h"

int pw_memory_create(uint32_t backend, const pw_memory_model_options *options, pw_memory **out)
{
    switch (backend) {
    case PW_MEMORY_HOST:
        return pw_memory_host_create(out);
    case PW_MEMORY_MODEL:
        return options ? pw_memory_model_create(options, out) : PW_ERR_INVALID;
    default:
        return PW_ERR_INVALID;
    }
}

void pw_memory_destroy(pw_memory *memory)
{
    if (memory)
        memory->ops->destroy(memory);
}

static bool is_range(uint64_t first_page, uint64_t num_pages)
{
    return first_page <= PW_MEMORY_PAGES_END && num_pages <= PW_MEMORY_PAGES_END - first_page;
}

int pw_memory_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    if (!is_range(first_page, num_pages))
        return PW_ERR_INVALID;
    memory->counters.probes++;
    memory->counters.probed_pages += num_pages;
    return num_pages > 0 ? memory->ops->probe(memory, first_page, num_pages, state) : PW_OK;
}

int pw_memory_check_access(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write, uint8_t *state)
{
    if (num_pages == 0 || !memory->ops->check_access)
        return PW_OK;
    return memory->ops->check_access(memory, first_page, num_pages, for_write != 0, state);
}

int pw_memory_checks_access(const pw_memory *memory)
{
    return memory->ops->check_access && memory->maps >= 0;
}

int pw_memory_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                       uint64_t *num_absent)
{
    if (!is_range(first_page, num_pages))
        return PW_ERR_INVALID;
    uint64_t absent = 0;
    int code = num_pages > 0 ? memory->ops->populate(memory, first_page, num_pages, for_write != 0, &absent)
                             : PW_OK;
    if (num_absent)
        *num_absent = absent;
    return code;
}

int pw_memory_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent)
{
    if (!is_range(first_page, num_pages))
        return PW_ERR_INVALID;
    uint64_t absent = 0;
    int code = num_pages > 0 ? memory->ops->pin(memory, first_page, num_pages, &absent) : PW_OK;
    if (code == PW_OK)
        memory->counters.pinned_pages += num_pages;
    if (num_absent)
        *num_absent = absent;
    return code;
}

int pw_memory_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!is_range(first_page, num_pages))
        return PW_ERR_INVALID;
    int code = num_pages > 0 ? memory->ops->unpin(memory, first_page, num_pages) : PW_OK;
    if (code == PW_OK)
        memory->counters.unpinned_pages += num_pages;
    return code;
}

int pw_memory_drop(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!is_range(first_page, num_pages))
        return PW_ERR_INVALID;
    return num_pages > 0 ? memory->ops->drop(memory, first_page, num_pages) : PW_OK;
}

int pw_memory_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    if (!is_range(first_page, num_pages) || state > PW_PAGE_UNMAPPED || !memory->ops->set)
        return PW_ERR_INVALID;
    return num_pages > 0 ? memory->ops->set(memory, first_page, num_pages, state) : PW_OK;
}

void pw_memory_read_counters(const pw_memory *memory, pw_memory_counters *out)
{
    *out = memory->counters;
}
