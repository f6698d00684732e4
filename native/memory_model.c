/* Page residency of a model: a page table of our own, seeded. See memory.h for what it promises.
 *
 * A page that nobody changed has no entry: its state follows from (seed, page) alone, so it depends
 * neither on the order of calls nor on what was probed. Such a page, though PRESENT, takes no frame
 * until populate, pin or set touches it.
 *
 * A page first touched by a read is the zero page: a write to it faults again. It takes a frame
 * here as any other does. A fork write-protects what is resident. A huge page (2 MB) comes in whole
 * at one fault and is taken apart when a part of it is evicted, dropped or set. */
#include <stdlib.h>
#include <string.h>

#include "native/memory_backend.h"

#define MILLION 1000000u
#define LRU 0u /* entry 0 is the sentinel of the LRU ring: older = the newest page */
#define GROUPS_MIN 4u
#define GROUPS_MAX (1u << 27)
#define GROUP_PAGES 8u

/* What is known of a page. */
struct entry {
    uint8_t state : 3;
    uint8_t is_known : 1; /* else it is what the seed says, and the rest is false */
    uint8_t has_frame : 1;
    uint8_t is_pinned : 1;
    uint8_t is_swapped : 1; /* ABSENT because its frame was taken: the next fault is a major one */
    uint8_t is_collapsed : 1;       /* ABSENT because its huge page is new: the data are there */
    uint8_t is_write_protected : 1; /* zero page, or shared with a child */
    uint8_t is_huge : 1;
};
_Static_assert(PW_PAGE_FORBIDDEN < 8 && PW_PAGE_WRITE_PROTECTED < 8, "a state has 3 bits");

/* Neighbouring pages: an entry's number is that of its group times GROUP_PAGES, and its place. */
struct group {
    uint64_t first_page; /* a multiple of GROUP_PAGES */
    struct entry entries[GROUP_PAGES];
};

/* Of an entry in the LRU ring: one that holds a frame and is not pinned. */
struct lru_link {
    uint32_t newer, older;
};

struct model {
    pw_memory memory;
    pw_memory_model_options options;
    struct group *groups;   /* never removed; group 0 is the sentinel's */
    struct lru_link *links; /* by entry; NULL: nobody asks, since there is no limit of frames */
    uint32_t num_groups, capacity;
    uint32_t *buckets; /* 2 * capacity, a power of two: a group, 0 = free; linear probing */
    uint64_t num_frames, num_pinned;
    uint64_t num_transfers; /* draws of collapses so far */
    bool is_forked;         /* the whole address space: pages never seen are write-protected too */
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
    uint64_t place = model->options.huge_pages ? pw_huge_page_of(page)
                                               : page; /* a huge page comes and goes whole */
    uint64_t draw = (mix(model->options.seed ^ mix(place)) >> 32) * MILLION >> 32;
    return draw < model->options.fault_millionths ? PW_PAGE_ABSENT : PW_PAGE_PRESENT;
}

static inline struct entry *entry_at(const struct model *model, uint32_t i)
{
    return &model->groups[i / GROUP_PAGES].entries[i % GROUP_PAGES];
}

static inline uint64_t page_at(const struct model *model, uint32_t i)
{
    return model->groups[i / GROUP_PAGES].first_page + i % GROUP_PAGES;
}

/* The bucket that holds the group of this page, or the free one where it belongs. */
static uint32_t *find_bucket(const struct model *model, uint64_t first_page)
{
    uint32_t mask = model->capacity * 2 - 1;
    uint32_t i = (uint32_t)(mix(first_page) & mask);
    while (model->buckets[i] != 0 && model->groups[model->buckets[i]].first_page != first_page)
        i = (i + 1) & mask;
    return &model->buckets[i];
}

/* The entry of a page, 0: it is not known. */
static uint32_t find(const struct model *model, uint64_t page)
{
    const uint32_t place = (uint32_t)(page % GROUP_PAGES);
    const uint32_t i = *find_bucket(model, page - place) * GROUP_PAGES + place;
    return i >= GROUP_PAGES && entry_at(model, i)->is_known ? i : 0;
}

static int grow(struct model *model)
{
    if (model->capacity >= GROUPS_MAX) return PW_ERR_NOMEM;
    uint32_t capacity = model->capacity * 2;
    struct group *groups = realloc(model->groups, (size_t)capacity * sizeof(*groups));
    if (!groups) return PW_ERR_NOMEM;
    model->groups = groups; /* capacity stays until the buckets follow */
    if (model->links) {
        struct lru_link *links =
            realloc(model->links, (size_t)capacity * GROUP_PAGES * sizeof(*links));
        if (!links) return PW_ERR_NOMEM;
        model->links = links;
    }
    uint32_t *buckets = calloc((size_t)capacity * 2, sizeof(*buckets));
    if (!buckets) return PW_ERR_NOMEM;
    free(model->buckets);
    model->buckets = buckets;
    model->capacity = capacity;
    for (uint32_t i = 1; i < model->num_groups; i++) *find_bucket(model, groups[i].first_page) = i;
    return PW_OK;
}

static int enter_one(struct model *model, uint64_t page, uint32_t *out)
{
    const uint32_t place = (uint32_t)(page % GROUP_PAGES);
    uint32_t *bucket = find_bucket(model, page - place);
    if (*bucket == 0) {
        if (model->num_groups == model->capacity) {
            int code = grow(model);
            if (code != PW_OK) return code;
            bucket = find_bucket(model, page - place);
        }
        *bucket = model->num_groups++;
        model->groups[*bucket] = (struct group){.first_page = page - place};
    }
    *out = *bucket * GROUP_PAGES + place;
    struct entry *entry = entry_at(model, *out);
    if (entry->is_known) return PW_OK;
    const uint8_t state = first_state(model, page);
    *entry = (struct entry){.state = (uint8_t)(state & 7),
                            .is_known = true,
                            .is_huge = model->options.huge_pages != 0,
                            .is_write_protected = model->is_forked && state == PW_PAGE_PRESENT};
    return PW_OK;
}

/* The entry of a page, made when there is none; it changes nothing that a probe sees. All pages of
 * a huge page have one, so that it can be taken apart. */
static int enter_page(struct model *model, uint64_t page, uint32_t *out)
{
    int code = PW_OK;
    if (model->options.huge_pages && !find(model, page))
        for (uint64_t other = pw_huge_page_of(page);
             code == PW_OK && other < pw_huge_page_of(page) + PW_HUGE_PAGES; other++)
            code = enter_one(model, other, out);
    return code == PW_OK ? enter_one(model, page, out) : code;
}

static void lru_remove(struct model *model, uint32_t i)
{
    struct lru_link *links = model->links;
    if (!links) return;
    links[links[i].newer].older = links[i].older;
    links[links[i].older].newer = links[i].newer;
}

static void lru_add_newest(struct model *model, uint32_t i)
{
    struct lru_link *links = model->links;
    if (!links) return;
    links[i].newer = LRU;
    links[i].older = links[LRU].older;
    links[links[i].older].newer = i;
    links[LRU].older = i;
}

/* Take the frame and the pin away. */
static void free_frame(struct model *model, uint32_t i)
{
    struct entry *entry = entry_at(model, i);
    if (!entry->has_frame) return;
    if (entry->is_pinned) model->num_pinned--;
    else lru_remove(model, i);
    entry->has_frame = entry->is_pinned = false;
    model->num_frames--;
    pw_resident_gone(&model->memory.resident, page_at(model, i));
}

/* The page is not part of a huge page any more, nor are those around it. */
static void split(struct model *model, uint32_t i)
{
    if (!entry_at(model, i)->is_huge) return;
    uint64_t region_page = pw_huge_page_of(page_at(model, i));
    for (uint64_t page = region_page; page < region_page + PW_HUGE_PAGES; page++)
        entry_at(model, find(model, page))->is_huge = false;
}

/* Give the page a frame, the most recently used. PW_ERR_FULL when every frame is pinned. */
static int take_frame(struct model *model, uint32_t i)
{
    struct entry *entry = entry_at(model, i);
    if (!entry->has_frame) {
        if (model->options.frame_limit_pages > 0 &&
            model->num_frames >= model->options.frame_limit_pages) {
            uint32_t oldest = model->links[LRU].newer;
            if (oldest == LRU) return PW_ERR_FULL;
            free_frame(model, oldest);
            split(model, oldest);
            struct entry *evicted = entry_at(model, oldest);
            evicted->state = PW_PAGE_ABSENT;
            evicted->is_swapped = true;
            evicted->is_collapsed = false;
        }
        entry->has_frame = true;
        model->num_frames++;
        lru_add_newest(model, i);
        pw_resident_note(&model->memory.resident, page_at(model, i), 1, NULL);
    } else if (!entry->is_pinned) {
        lru_remove(model, i);
        lru_add_newest(model, i);
    }
    return PW_OK;
}

static uint8_t effect_of(const struct entry *entry, bool for_write)
{
    if (entry->state == PW_PAGE_ABSENT)
        return entry->is_swapped ? PW_EFFECT_SWAPPED : PW_EFFECT_NEW;
    return for_write && entry->is_write_protected ? PW_EFFECT_COPIED : PW_EFFECT_NONE;
}

/* Present for the access, with a frame. */
static int touch(struct model *model, uint32_t i, bool for_write)
{
    int code = take_frame(model, i);
    if (code != PW_OK) return code;
    struct entry *entry = entry_at(model, i);
    uint8_t effect = effect_of(entry, for_write);
    model->memory.counters.major_faults += effect == PW_EFFECT_SWAPPED;
    if (for_write) entry->is_write_protected = false;
    else if (effect == PW_EFFECT_NEW && !entry->is_collapsed)
        entry->is_write_protected = true; /* the zero page */
    entry->state = PW_PAGE_PRESENT;
    entry->is_swapped = entry->is_collapsed = false;
    return PW_OK;
}

/* The rest of the huge page that comes in with page i, as far as there are frames. All its pages
 * have entries. */
static void bring_along(struct model *model, uint32_t i, bool for_write)
{
    uint64_t page = page_at(model, i), region_page = pw_huge_page_of(page);
    for (uint64_t other = region_page;
         other < region_page + PW_HUGE_PAGES && entry_at(model, i)->is_huge; other++) {
        uint32_t j = find(model, other);
        if (other != page && effect_of(entry_at(model, j), for_write) != PW_EFFECT_NONE &&
            touch(model, j, for_write) != PW_OK)
            split(model, i);
    }
}

static uint8_t state_of(const struct model *model, uint64_t page)
{
    uint32_t i = find(model, page);
    return i ? entry_at(model, i)->state : first_state(model, page);
}

static int model_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    const struct model *model = (const struct model *)memory;
    for (uint64_t i = 0; i < num_pages; i++) state[i] = state_of(model, first_page + i);
    return PW_OK;
}

static int model_check_access(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                              bool for_write, uint8_t *state)
{
    const struct model *model = (const struct model *)memory;
    for (uint64_t i = 0; i < num_pages; i++) {
        if (state[i] != PW_PAGE_PRESENT || !for_write) continue;
        const uint32_t known = find(model, first_page + i);
        if (known ? entry_at(model, known)->is_write_protected : model->is_forked)
            state[i] = PW_PAGE_WRITE_PROTECTED;
    }
    return PW_OK;
}

static int page_in(struct model *model, uint64_t page, bool for_write, uint8_t *effect)
{
    uint32_t i;
    int code = enter_page(model, page, &i);
    if (code != PW_OK) return code;
    struct entry *entry = entry_at(model, i);
    if (entry->state == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    if (entry->is_huge && effect_of(entry, for_write) != PW_EFFECT_NONE)
        bring_along(model, i,
                    for_write); /* first, so that none of these takes the page's own frame */
    *effect = effect_of(entry, for_write);
    return touch(model, i, for_write);
}

static int model_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                          bool for_write, uint64_t *num_absent, uint8_t *effects)
{
    struct model *model = (struct model *)memory;
    uint64_t brought_region = UINT64_MAX;
    for (uint64_t n = 0; n < num_pages; n++) {
        uint8_t effect = PW_EFFECT_NONE;
        int code = page_in(model, first_page + n, for_write, &effect);
        if (code != PW_OK && effects)
            memset(effects + n, code == PW_ERR_ADDRESS ? PW_EFFECT_UNMAPPED : PW_EFFECT_NONE,
                   num_pages - n);
        if (code != PW_OK) return code;
        if (effect != PW_EFFECT_NONE) brought_region = pw_huge_page_of(first_page + n);
        else if (brought_region == pw_huge_page_of(first_page + n) &&
                 entry_at(model, find(model, first_page + n))->is_huge)
            effect = PW_EFFECT_ALONG;
        *num_absent += effect != PW_EFFECT_NONE;
        if (effects) effects[n] = effect;
    }
    return PW_OK;
}

static void model_extent(pw_memory *memory, uint64_t page, uint64_t *first_page,
                         uint64_t *num_pages)
{
    const struct model *model = (const struct model *)memory;
    if (!entry_at(model, find(model, page))->is_huge) return;
    *first_page = pw_huge_page_of(page);
    *num_pages = PW_HUGE_PAGES;
}

/* PW_ERR_ADDRESS when a page of the range is UNMAPPED. Looks only. */
static int check_mapped(const struct model *model, uint64_t first_page, uint64_t num_pages)
{
    for (uint64_t i = 0; i < num_pages; i++)
        if (state_of(model, first_page + i) == PW_PAGE_UNMAPPED) return PW_ERR_ADDRESS;
    return PW_OK;
}

static int model_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                     uint64_t *num_absent)
{
    struct model *model = (struct model *)memory;
    int code = check_mapped(model, first_page, num_pages);
    if (code != PW_OK) return code;
    /* All that can fail comes before the first change. */
    uint64_t num_new = 0;
    uint32_t i;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        code = enter_page(model, page, &i);
        if (code != PW_OK) return code;
        num_new += !entry_at(model, i)->is_pinned;
    }
    uint64_t limit = model->options.frame_limit_pages;
    if (limit > 0 && num_new > limit - model->num_pinned) return PW_ERR_FULL;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint8_t effect = PW_EFFECT_NONE;
        i = find(model, page);
        code = page_in(model, page, true, &effect);
        *num_absent += effect != PW_EFFECT_NONE;
        if (code != PW_OK) return code;
        if (!entry_at(model, i)->is_pinned) {
            lru_remove(model, i);
            entry_at(model, i)->is_pinned = true;
            model->num_pinned++;
        }
    }
    return PW_OK;
}

static int model_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    int code = check_mapped(model, first_page, num_pages);
    if (code != PW_OK) return code;
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint32_t i = find(model, page);
        if (i == 0 || !entry_at(model, i)->is_pinned) continue;
        entry_at(model, i)->is_pinned = false;
        model->num_pinned--;
        lru_add_newest(model, i);
    }
    return PW_OK;
}

static int model_is_pinned(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    for (uint64_t page = first_page; page < first_page + num_pages; page++)
        if (!entry_at(model, find(model, page))->is_pinned) return 0; /* nor the sentinel */
    return 1;
}

/* Nothing is known of the page any more but its state. */
static int set_page(struct model *model, uint64_t page, uint8_t state)
{
    uint32_t i;
    int code = enter_page(model, page, &i);
    if (code != PW_OK) return code;
    free_frame(model, i);
    split(model, i);
    struct entry *entry = entry_at(model, i);
    bool is_present = state == PW_PAGE_PRESENT || state == PW_PAGE_WRITE_PROTECTED;
    entry->state = (uint8_t)((is_present ? PW_PAGE_PRESENT : state) & 7);
    entry->is_swapped = entry->is_collapsed = false;
    entry->is_write_protected = state == PW_PAGE_WRITE_PROTECTED;
    code = is_present ? take_frame(model, i) : PW_OK;
    if (code != PW_OK) entry->state = PW_PAGE_ABSENT;
    return code;
}

static int model_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    int code = PW_OK;
    for (uint64_t page = first_page; code == PW_OK && page < first_page + num_pages; page++)
        code = set_page((struct model *)memory, page, state);
    return code;
}

static void share(struct entry *entry)
{
    if (entry->state == PW_PAGE_PRESENT || entry->is_swapped || entry->is_collapsed)
        entry->is_write_protected = true;
}

static int model_fork(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    if (num_pages == UINT64_MAX) {
        model->is_forked = true;
        for (uint32_t i = GROUP_PAGES; i < model->num_groups * GROUP_PAGES; i++)
            if (entry_at(model, i)->is_known) share(entry_at(model, i));
        return PW_OK;
    }
    for (uint64_t page = first_page; page < first_page + num_pages; page++) {
        uint32_t i;
        int code = enter_page(model, page, &i);
        if (code != PW_OK) return code;
        share(entry_at(model, i));
    }
    return PW_OK;
}

/* Did the 2 MB from this page on become a huge page just now? Without memory for its entries it
 * just stays as it is. */
static bool collapse_region(struct model *model, uint64_t region_page)
{
    for (uint64_t page = region_page; page < region_page + PW_HUGE_PAGES; page++) {
        uint32_t i = find(model, page);
        const struct entry *entry = entry_at(model, i);
        if (state_of(model, page) != PW_PAGE_PRESENT) return false;
        if (i ? entry->is_huge || entry->is_pinned || entry->is_write_protected : model->is_forked)
            return false;
    }
    for (uint64_t page = region_page; page < region_page + PW_HUGE_PAGES; page++) {
        uint32_t i;
        if (enter_page(model, page, &i) != PW_OK) return false;
        entry_at(model, i)->state = PW_PAGE_ABSENT;
        entry_at(model, i)->is_collapsed = entry_at(model, i)->is_huge = true;
    }
    model->memory.counters.collapsed_regions++;
    model->memory.has_huge_pages = true;
    return true;
}

static uint64_t model_begin_transfer(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    struct model *model = (struct model *)memory;
    uint64_t num_collapsed = 0, end_page = first_page + num_pages;
    if (model->options.collapse_millionths == 0) return 0;
    model->num_transfers++;
    for (uint64_t region_page = pw_huge_page_of(first_page); region_page < end_page;
         region_page += PW_HUGE_PAGES) {
        uint64_t draw =
            mix(model->options.seed ^ mix(region_page + mix(model->num_transfers))) >> 32;
        num_collapsed += draw * MILLION >> 32 < model->options.collapse_millionths &&
                         region_page + PW_HUGE_PAGES <= PW_MEMORY_PAGES_END &&
                         collapse_region(model, region_page);
    }
    return num_collapsed;
}

static void model_destroy(pw_memory *memory)
{
    struct model *model = (struct model *)memory;
    free(model->buckets);
    free(model->groups);
    free(model->links);
    free(model);
}

static const struct pw_memory_ops model_ops = {
    .destroy = model_destroy,
    .probe = model_probe,
    .check_access = model_check_access,
    .populate = model_populate,
    .pin = model_pin,
    .unpin = model_unpin,
    .is_pinned = model_is_pinned,
    .extent = model_extent,
    .set = model_set,
    .fork = model_fork,
    .begin_transfer = model_begin_transfer,
};

int pw_memory_model_create(const pw_memory_model_options *options, pw_memory **out)
{
    if (options->frame_limit_pages > UINT64_MAX / PW_MEMORY_ROUNDS ||
        options->fault_millionths > MILLION || options->collapse_millionths > MILLION ||
        options->huge_pages > 1 || options->detached > 1)
        return PW_ERR_INVALID;
    struct model *model = calloc(1, sizeof(*model));
    if (!model) return PW_ERR_NOMEM;
    model->memory.ops = &model_ops;
    model->memory.is_model = true;
    model->memory.asks_host = !options->detached;
    model->memory.pages_in_vain_max = options->frame_limit_pages * PW_MEMORY_ROUNDS;
    model->memory.has_huge_pages = options->huge_pages != 0;
    model->memory.pagemap = -1;
    model->memory.maps = options->detached ? -1 : pw_memory_open_maps();
    model->options = *options;
    model->capacity = GROUPS_MIN;
    model->groups = calloc(GROUPS_MIN, sizeof(*model->groups));
    model->buckets = calloc(GROUPS_MIN * 2, sizeof(*model->buckets));
    if (!model->groups || !model->buckets) goto destroy;
    if (options->frame_limit_pages)
        model->links = calloc(GROUPS_MIN * GROUP_PAGES, sizeof(*model->links));
    if (options->frame_limit_pages && !model->links) goto destroy;
    model->num_groups = 1; /* the sentinel, linked to itself by its zeros */
    *out = &model->memory;
    return PW_OK;

destroy:
    pw_memory_destroy(&model->memory);
    return PW_ERR_NOMEM;
}
