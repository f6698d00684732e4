/* Page residency of a model: a page table of our own, seeded. See memory.h for what it promises.
 *
 * A page that nobody changed has no entry: its state follows from (seed, page) alone, so it depends
 * neither on the order of calls nor on what was probed. Such a page, though PRESENT, takes no frame until
 * populate, pin or set touches it. Not modelled: protection, and writes apart from reads. */
#include <stdlib.h>

#include "native/memory_backend.h"

#define MILLION 1000000u
#define LRU 0u /* entry 0 is the sentinel of the LRU ring: older = the newest page */
#define ENTRIES_MIN 64u
#define ENTRIES_MAX (1u << 30)

struct entry {
    uint64_t page;
    uint32_t newer, older;      /* the LRU ring, when it holds a frame and is not pinned */
    uint8_t state;
    bool has_frame, is_pinned;
    bool is_swapped;            /* ABSENT because its frame was taken: the next fault is a major one */
};

struct model {
    pw_memory memory;
    pw_memory_model_options options;
    struct entry *entries;      /* never removed */
    uint32_t num_entries, capacity;
    uint32_t *buckets;          /* 2 * capacity, a power of two: an entry, 0 = free; linear probing */
    uint64_t num_frames, num_pinned;
};

/* The finaliser of splitmix64: every bit of the input changes every bit of the output. */
static inline uint64_t mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

static uint8_t first_state(const struct model *model, uint64_t page)
{
    uint64_t draw = (mix(model->options.seed ^ mix(page)) >> 32) * MILLION >> 32;
    return draw < model->options.fault_millionths ? PW_PAGE_ABSENT : PW_PAGE_PRESENT;
}

/* The bucket that holds the page, or the free one where it belongs. */
static uint32_t *find_bucket(const struct model *model, uint64_t page)
{
    uint32_t mask = model->capacity * 2 - 1;
    uint32_t i = (uint32_t)(mix(page) & mask);
    while (model->buckets[i] != 0 && model->entries[model->buckets[i]].page != page)
        i = (i + 1) & mask;
    return &model->buckets[i];
}

static int grow(struct model *model)
{
    if (model->capacity >= ENTRIES_MAX)
        return PW_ERR_NOMEM;
    uint32_t capacity = model->capacity * 2;
    struct entry *entries = realloc(model->entries, (size_t)capacity * sizeof(*entries));
    if (!entries)
        return PW_ERR_NOMEM;
    model->entries = entries; /* capacity stays until the buckets follow */
    uint32_t *buckets = calloc((size_t)capacity * 2, sizeof(*buckets));
    if (!buckets)
        return PW_ERR_NOMEM;
    free(model->buckets);
    model->buckets = buckets;
    model->capacity = capacity;
    for (uint32_t i = 1; i < model->num_entries; i++)
        *find_bucket(model, entries[i].page) = i;
    return PW_OK;
}

/* The entry of a page, made when there is none; it changes nothing that a probe sees. */
static int enter_page(struct model *model, uint64_t page, uint32_t *out)
{
    uint32_t *bucket = find_bucket(model, page);
    if (*bucket == 0) {
        if (model->num_entries == model->capacity) {
            int code = grow(model);
            if (code != PW_OK)
                return code;
            bucket = find_bucket(model, page);
        }
        *bucket = model->num_entries++;
        model->entries[*bucket] = (struct entry){ .page = page, .state = first_state(model, page) };
    }
    *out = *bucket;
    return PW_OK;
}

static void lru_remove(struct model *model, uint32_t i)
{
    struct entry *entries = model->entries;
    entries[entries[i].newer].older = entries[i].older;
    entries[entries[i].older].newer = entries[i].newer;
}

static void lru_add_newest(struct model *model, uint32_t i)
{
    struct entry *entries = model->entries;
    entries[i].newer = LRU;
    entries[i].older = entries[LRU].older;
    entries[entries[i].older].newer = i;
    entries[LRU].older = i;
}

/* Take the frame and the pin away. */
static void free_frame(struct model *model, uint32_t i)
{
    struct entry *entry = &model->entries[i];
    if (!entry->has_frame)
        return;
    if (entry->is_pinned)
        model->num_pinned--;
    else
        lru_remove(model, i);
    entry->has_frame = entry->is_pinned = false;
    model->num_frames--;
}

/* Present, with a frame, the most recently used. PW_ERR_FULL when every frame is pinned. */
static int touch(struct model *model, uint32_t i)
{
    struct entry *entry = &model->entries[i];
    if (!entry->has_frame) {
        if (model->options.frame_limit_pages > 0 && model->num_frames >= model->options.frame_limit_pages) {
            uint32_t oldest = model->entries[LRU].newer;
            if (oldest == LRU)
                return PW_ERR_FULL;
            free_frame(model, oldest);
            model->entries[oldest].state = PW_PAGE_ABSENT;
            model->entries[oldest].is_swapped = true;
        }
        entry->has_frame = true;
        model->num_frames++;
        lru_add_newest(model, i);
    } else if (!entry->is_pinned) {
        lru_remove(model, i);
        lru_add_newest(model, i);
    }
    if (entry->state == PW_PAGE_ABSENT) {
        model->memory.counters.populated_pages++;
        model->memory.counters.major_faults += entry->is_swapped;
    } else {
        model->memory.counters.already_present_pages++;
    }
    entry->state = PW_PAGE_PRESENT;
    entry->is_swapped = false;
    return PW_OK;
}

static uint8_t state_of(const struct model *model, uint64_t page)
{
    uint32_t i = *find_bucket(model, page);
    return i ? model->entries[i].state : first_state(model, page);
}

static int model_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    const struct model *model = (const struct model *)memory;
    for (uint64_t i = 0; i < num_pages; i++)
        state[i] = state_of(model, first_page + i);
    return PW_OK;
}

static int model_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                          uint64_t *num_absent)
{
    struct model *model = (struct model *)memory;
    (void)for_write;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint32_t i;
        int code = enter_page(model, page, &i);
        if (code != PW_OK)
            return code;
        uint8_t before = model->entries[i].state;
        if (before == PW_PAGE_UNMAPPED)
            return PW_ERR_ADDRESS;
        code = touch(model, i);
        if (code != PW_OK)
            return code;
        *num_absent += before == PW_PAGE_ABSENT;
    }
    return PW_OK;
}

/* PW_ERR_ADDRESS when a page of the range is UNMAPPED. Looks only. */
static int check_mapped(const struct model *model, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t i = 0; i < num_pages; i++)
        if (state_of(model, first_page + i) == PW_PAGE_UNMAPPED)
            return PW_ERR_ADDRESS;
    return PW_OK;
}

static int model_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent)
{
    struct model *model = (struct model *)memory;
    int code = check_mapped(model, first_page, num_pages);
    if (code != PW_OK)
        return code;
    /* All that can fail comes before the first change. */
    uint64_t num_new = 0;
    uint32_t i;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        code = enter_page(model, page, &i);
        if (code != PW_OK)
            return code;
        num_new += !model->entries[i].is_pinned;
    }
    uint64_t limit = model->options.frame_limit_pages;
    if (limit > 0 && num_new > limit - model->num_pinned)
        return PW_ERR_FULL;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        i = *find_bucket(model, page);
        *num_absent += model->entries[i].state == PW_PAGE_ABSENT;
        code = touch(model, i);
        if (code != PW_OK)
            return code;
        if (!model->entries[i].is_pinned) {
            lru_remove(model, i);
            model->entries[i].is_pinned = true;
            model->num_pinned++;
        }
    }
    return PW_OK;
}

static int model_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    int code = check_mapped(model, first_page, num_pages);
    if (code != PW_OK)
        return code;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint32_t i = *find_bucket(model, page);
        if (i == 0 || !model->entries[i].is_pinned)
            continue;
        model->entries[i].is_pinned = false;
        model->num_pinned--;
        lru_add_newest(model, i);
    }
    return PW_OK;
}

static int model_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    struct model *model = (struct model *)memory;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint32_t i;
        int code = enter_page(model, page, &i);
        if (code != PW_OK)
            return code;
        free_frame(model, i);
        model->entries[i].state = state;
        model->entries[i].is_swapped = false;
        if (state == PW_PAGE_PRESENT) {
            pw_memory_counters counters = memory->counters; /* set counts nothing */
            code = touch(model, i);
            memory->counters = counters;
            if (code != PW_OK) {
                model->entries[i].state = PW_PAGE_ABSENT;
                return code;
            }
        }
    }
    return PW_OK;
}

static int model_drop(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    int code = check_mapped(model, first_page, num_pages);
    if (code != PW_OK)
        return code;
    for (uint64_t page = first_page; page < first_page + num_pages; page++)
        if (model->entries[*find_bucket(model, page)].is_pinned) /* the sentinel is not pinned */
            return PW_ERR_PROTECTION;
    return model_set(memory, first_page, num_pages, PW_PAGE_ABSENT);
}

static void model_destroy(pw_memory *memory)
{
    struct model *model = (struct model *)memory;
    free(model->buckets);
    free(model->entries);
    free(model);
}

static const struct pw_memory_ops model_ops = {
    .destroy = model_destroy,
    .probe = model_probe,
    .populate = model_populate,
    .pin = model_pin,
    .unpin = model_unpin,
    .drop = model_drop,
    .set = model_set,
};

int pw_memory_model_create(const pw_memory_model_options *options, pw_memory **out)
{
    if (options->fault_millionths > MILLION)
        return PW_ERR_INVALID;
    struct model *model = calloc(1, sizeof(*model));
    if (!model)
        return PW_ERR_NOMEM;
    model->memory.ops = &model_ops;
    model->options = *options;
    model->capacity = ENTRIES_MIN;
    model->entries = calloc(ENTRIES_MIN, sizeof(*model->entries));
    model->buckets = calloc(ENTRIES_MIN * 2, sizeof(*model->buckets));
    if (!model->entries || !model->buckets)
        goto destroy;
    model->num_entries = 1; /* the sentinel, linked to itself by its zeros */
    *out = &model->memory;
    return PW_OK;

destroy:
    model_destroy(&model->memory);
    return PW_ERR_NOMEM;
}
