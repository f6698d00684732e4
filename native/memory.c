/* What the host backend needs of the kernel, tried on a page of its own. */
#include "native/memory.h"
#include "native/memory_backend.h"
#include "native/memory_events.h"
#include <sys/mman.h>
#include <unistd.h>
#include <errno.h>
#include <string.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#define REMEDY "allow it in the container's seccomp profile, or take memory_backend.backend = model"

static const char *lacks(void *page)
{
    unsigned char state;
    if (mincore(page, PW_PAGE_BYTES, &state) != 0)
        return "the kernel refuses mincore, which tells what pages are there; " REMEDY;
    if (madvise(page, PW_PAGE_BYTES, MADV_POPULATE_READ) != 0)
        return "the kernel refuses madvise(MADV_POPULATE_READ), which brings pages in; take Linux "
               "5.14 or newer, " REMEDY;
    if (madvise(page, PW_PAGE_BYTES, MADV_POPULATE_WRITE) != 0)
        return "the kernel refuses madvise(MADV_POPULATE_WRITE), which brings pages in; take Linux "
               "5.14 or newer, " REMEDY;
    return NULL;
}

const char *pw_memory_host_lacks(void)
{
    if (sysconf(_SC_PAGESIZE) != PW_PAGE_BYTES)
        return "this kernel's pages are not of 4 KB; take a kernel whose pages are, or "
               "memory_backend.backend = model";
    void *page =
        mmap(NULL, PW_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return "the kernel gives no memory (mmap); raise ulimit -v";
    const char *found = lacks(page);
    munmap(page, PW_PAGE_BYTES);
    return found;
}

/* What has changed since is not known any more. */
static void heed_events(pw_memory *memory)
{
    while (memory->events_seen != pw_memory_events_count()) {
        uint64_t first_page, end_page;
        pw_memory_events_read(&memory->events_seen, &first_page, &end_page);
        pw_present_forget(&memory->present, first_page, end_page);
        pw_mappings_forget(&memory->mappings);
    }
}

static const pw_mapping *find_kept(pw_memory *memory, uint64_t page)
{
    pw_mappings *mappings = &memory->mappings;
    if (memory->has_events) heed_events(memory);
    if (memory->has_events && pw_memory_events_tell_protection()) mappings->entry = memory->entry;
    if (mappings->entry != memory->entry || mappings->generation != memory->generation) {
        mappings->entry = memory->entry;
        mappings->generation = memory->generation;
        pw_mappings_forget(mappings);
    }
    for (uint32_t i = 0; i < mappings->num_kept; i++)
        if (page >= mappings->kept[i].first_page && page < mappings->kept[i].end_page)
            return &mappings->kept[i];
    return NULL;
}

static void keep(pw_memory *memory, const pw_mapping *mapping)
{
    pw_mappings *mappings = &memory->mappings;
    if (!memory->entry) return; /* nobody says when the program runs */
    mappings->kept[mappings->next_slot++ % PW_MAPPINGS_KEPT] = *mapping;
    if (mappings->num_kept < PW_MAPPINGS_KEPT) mappings->num_kept++;
}

static int ask_mapping(const pw_memory *memory, uint64_t page, pw_mapping *out)
{
    struct procmap_question question = {
        .size = sizeof question, .flags = COVERING_OR_NEXT, .address = page << PW_PAGE_SHIFT};
    if (ioctl(memory->maps, PROCMAP_QUESTION, &question) != 0)
        return errno == ENOENT ? PW_ERR_ADDRESS : PW_ERR_HOST;
    *out = (pw_mapping){.first_page = question.vma_start >> PW_PAGE_SHIFT,
                        .end_page = question.vma_end >> PW_PAGE_SHIFT,
                        .flags = question.vma_flags,
                        .is_file = question.inode != 0};
    return PW_OK;
}

static int were_wrong(pw_memory *memory, uint64_t page)
{
    if (!memory->were_wrong) memory->wrong_page = page;
    memory->were_wrong = true;
    return PW_ERR_RESIDENCY;
}

bool pw_memory_events_were_wrong(const pw_memory *memory, uint64_t *page)
{
    *page = memory->wrong_page;
    return memory->were_wrong;
}

int pw_mappings_find(pw_memory *memory, uint64_t page, pw_mapping *out)
{
    const pw_mapping *kept = find_kept(memory, page);
    if (kept) {
        pw_mapping now;
        *out = *kept;
        if (!memory->is_checked) return PW_OK;
        const int code = ask_mapping(memory, page, &now);
        return code || now.first_page > page || now.flags != out->flags ? were_wrong(memory, page)
                                                                        : PW_OK;
    }
    const int code = ask_mapping(memory, page, out);
    if (code == PW_OK) keep(memory, out);
    return code;
}

/* Page residency: checks ranges and hands them to the backend. See memory.h. */

int pw_memory_create(uint32_t backend, const pw_memory_model_options *options, pw_memory **out)
{
    switch (backend) {
    case PW_MEMORY_HOST: return pw_memory_host_create(out);
    case PW_MEMORY_MODEL: return options ? pw_memory_model_create(options, out) : PW_ERR_INVALID;
    default: return PW_ERR_INVALID;
    }
}

void pw_memory_destroy(pw_memory *memory)
{
    if (!memory) return;
    pw_resident_clear(&memory->resident);
    pw_present_finish(&memory->present);
    if (memory->maps >= 0) close(memory->maps);
    memory->ops->destroy(memory);
}

int pw_memory_open_maps(void)
{
    struct procmap_question question = {.size = sizeof question, .flags = COVERING_OR_NEXT};
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps >= 0 && ioctl(maps, PROCMAP_QUESTION, &question) != 0) {
        close(maps);
        maps = -1;
    }
    return maps;
}

static bool is_range(uint64_t first_page, uint64_t num_pages)
{
    return first_page <= PW_MEMORY_PAGES_END && num_pages <= PW_MEMORY_PAGES_END - first_page;
}

int pw_memory_probe(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    memory->counters.probes++;
    memory->counters.probed_pages += num_pages;
    return num_pages > 0 ? memory->ops->probe(memory, first_page, num_pages, state) : PW_OK;
}

int pw_memory_look(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t *state)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    const int code = memory->ops->probe(memory, first_page, num_pages, state);
    return code < 0 ? code : memory->ops->check_access(memory, first_page, num_pages, true, state);
}

const char *pw_memory_use_events(pw_memory *memory, bool is_checked)
{
    if (memory->is_model) return "the memory is a model's";
    if (!pw_memory_checks_access(memory) || memory->pagemap < 0)
        return "the kernel does not tell of mappings (Linux 6.11) or of pages (/proc/self/pagemap)";
    const char *refused = pw_memory_events_begin();
    if (!refused && pw_present_init(&memory->present)) refused = "there is no memory for its table";
    if (refused) return refused;
    memory->events_seen = pw_memory_events_count();
    pw_mappings_forget(&memory->mappings);
    memory->has_events = true;
    memory->is_checked = is_checked;
    return NULL;
}

static int ask(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
               uint8_t *state)
{
    if (for_write && memory->ops->walk_for_write)
        return memory->ops->walk_for_write(memory, first_page, num_pages, state);
    const int code = memory->ops->probe(memory, first_page, num_pages, state);
    if (code < 0) return code;
    return memory->ops->check_access(memory, first_page, num_pages, for_write, state);
}

/* 1: all pages are there, as nothing has changed; 0: not known. PW_ERR_RESIDENCY: it was wrong. */
static int is_as_seen(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                      uint8_t *state)
{
    if (!memory->has_events) return 0;
    heed_events(memory);
    if (!pw_present_has(&memory->present, for_write, first_page, num_pages)) return 0;
    memset(state, PW_PAGE_PRESENT, num_pages);
    if (!memory->is_checked) return 1;
    const int code = ask(memory, first_page, num_pages, for_write, state);
    for (uint64_t i = 0; code == PW_OK && i < num_pages; i++)
        if (state[i] != PW_PAGE_PRESENT) return were_wrong(memory, first_page + i);
    return code < 0 ? code : 1;
}

bool pw_memory_stays(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!memory->has_events || pw_memory_events_are_vain()) return false;
    heed_events(memory);
    return pw_present_has(&memory->present, false, first_page, num_pages);
}

/* Pages of private anonymous mappings, for which the events tell all. */
static void note_seen(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                      const uint8_t *state)
{
    const uint64_t end_page = first_page + num_pages;
    pw_mapping mapping;
    if (!memory->has_events || pw_memory_events_are_vain()) return;
    for (uint64_t page = first_page; page < end_page; page = mapping.end_page) {
        if (pw_mappings_find(memory, page, &mapping) < 0 || mapping.first_page >= end_page) return;
        const uint64_t begin = mapping.first_page > page ? mapping.first_page : page;
        const uint64_t end = mapping.end_page < end_page ? mapping.end_page : end_page;
        if (!mapping.is_file && !(mapping.flags & VMA_SHARED))
            pw_present_note(&memory->present, for_write, begin, end - begin,
                            state + (begin - first_page));
    }
}

static int walk(pw_memory *memory, uint64_t first_page, uint64_t num_pages, bool for_write,
                uint8_t *state)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    memory->counters.probes++;
    memory->counters.probed_pages += num_pages;
    if (num_pages == 0) return PW_OK;
    int code = is_as_seen(memory, first_page, num_pages, for_write, state);
    if (code) return code < 0 ? code : PW_OK;
    code = ask(memory, first_page, num_pages, for_write, state);
    if (code == PW_OK) note_seen(memory, first_page, num_pages, for_write, state);
    return code;
}

int pw_memory_walk(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                   uint8_t *state)
{
    int code = walk(memory, first_page, num_pages, for_write != 0, state);
    if (code == PW_OK) pw_resident_note(&memory->resident, first_page, num_pages, state);
    return code;
}

int pw_memory_checks_access(const pw_memory *memory)
{
    if (memory->is_model) return PW_CHECKS_PERMISSION | PW_CHECKS_WRITE_PROTECTION;
    if (memory->maps < 0) return 0;
    return PW_CHECKS_PERMISSION | (memory->pagemap >= 0 ? PW_CHECKS_WRITE_PROTECTION : 0);
}

uint32_t pw_memory_sources(const pw_memory *memory)
{
    if (memory->is_model) return 0;
    return PW_SOURCE_MINCORE | (memory->pagemap >= 0 ? PW_SOURCE_PAGEMAP : 0) |
           (memory->maps >= 0 ? PW_SOURCE_PROCMAP : 0) |
           (memory->has_events ? PW_SOURCE_EVENTS : 0) |
           (pw_memory_scans(memory) ? PW_SOURCE_SCAN : 0);
}

int pw_memory_mapping(pw_memory *memory, uint64_t page, int for_write, uint64_t *first_page,
                      uint64_t *num_pages)
{
    if (!is_range(page, 1)) return PW_ERR_ADDRESS;
    if (memory->is_model && !memory->asks_host) {
        *first_page = 0;
        *num_pages = PW_MEMORY_PAGES_END;
        return PW_OK;
    }
    uint64_t address = page << PW_PAGE_SHIFT;
    if (memory->maps < 0) {
        unsigned char state;
        if (mincore((void *)(uintptr_t)address, PW_PAGE_BYTES, &state) != 0) return PW_ERR_ADDRESS;
        *first_page = page;
        *num_pages = 1;
        return PW_OK;
    }
    pw_mapping mapping;
    int code = pw_mappings_find(memory, page, &mapping);
    if (code == PW_OK && mapping.first_page > page) code = PW_ERR_ADDRESS;
    if (code < 0) return code;
    if (!(mapping.flags & (for_write ? VMA_WRITABLE : VMA_READABLE))) return PW_ERR_PROTECTION;
    *first_page = mapping.first_page;
    *num_pages = mapping.end_page - mapping.first_page;
    return PW_OK;
}

int pw_memory_may_vanish(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (memory->maps < 0 || !is_range(first_page, num_pages)) return 0;
    uint64_t end_page = first_page + num_pages;
    pw_mapping mapping;
    for (uint64_t page = first_page; page < end_page; page = mapping.end_page) {
        if (pw_mappings_find(memory, page, &mapping) < 0 || mapping.first_page >= end_page)
            return 0;
        if (mapping.is_file) return 1;
    }
    return 0;
}

void pw_memory_enter(pw_memory *memory) { memory->entry++; }

void pw_memory_at(pw_memory *memory, int64_t now_ns)
{
    if (now_ns != PW_NEVER) memory->resident.now_ns = now_ns;
}

const pw_pinned *pw_memory_resident(const pw_memory *memory) { return &memory->resident.count; }

void pw_memory_unmapped(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    pw_resident_range_gone(&memory->resident, first_page, num_pages);
    if (memory->has_events) pw_present_forget(&memory->present, first_page, first_page + num_pages);
}

void pw_memory_changed(pw_memory *memory) { memory->generation++; }

uint64_t pw_memory_generation(const pw_memory *memory) { return memory->generation; }

bool pw_known_pages_have(const pw_memory *memory, const pw_known_pages *known, uint64_t first_page,
                         uint64_t end_page)
{
    return known->entry == memory->entry && known->generation == memory->generation &&
           first_page >= known->first_page && end_page <= known->end_page;
}

void pw_known_pages_note(const pw_memory *memory, pw_known_pages *known, uint64_t first_page,
                         uint64_t end_page)
{
    bool counts = known->entry == memory->entry && known->generation == memory->generation;
    if (!counts || known->end_page != first_page) known->first_page = first_page;
    *known = (pw_known_pages){.first_page = known->first_page,
                              .end_page = end_page,
                              .entry = memory->entry,
                              .generation = memory->generation};
}

/* The model does so itself, because it can evict in between. */
static void note_resident(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!memory->is_model) pw_resident_note(&memory->resident, first_page, num_pages, NULL);
}

int pw_memory_populate(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                       uint64_t *num_absent)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    uint64_t absent = 0;
    pw_mappings_forget(&memory->mappings);
    int code = num_pages > 0 ? memory->ops->populate(memory, first_page, num_pages, for_write != 0,
                                                     &absent, NULL)
                             : PW_OK;
    if (num_absent) *num_absent = absent;
    if (code == PW_OK) note_resident(memory, first_page, num_pages);
    return code;
}

/* Each page-in copies real bytes in the end: what the host does not map for the access can never
 * come in, whatever a model says. */
static int page_in_where_mapped(pw_memory *memory, uint64_t first_page, uint64_t num_pages,
                                bool for_write, uint8_t *effects, uint64_t *num_absent)
{
    for (uint64_t done = 0; done < num_pages;) {
        uint64_t mapped_page, num_mapped = 0;
        int code =
            pw_memory_mapping(memory, first_page + done, for_write, &mapped_page, &num_mapped);
        uint64_t num_run = 0;
        if (code == PW_OK) {
            num_run = mapped_page + num_mapped - (first_page + done);
            if (num_run > num_pages - done) num_run = num_pages - done;
            code = memory->ops->populate(memory, first_page + done, num_run, for_write, num_absent,
                                         effects + done);
        }
        done += num_run;
        if (code == PW_OK) continue;
        memset(effects + done, code == PW_ERR_ADDRESS ? PW_EFFECT_UNMAPPED : PW_EFFECT_NONE,
               num_pages - done);
        return code;
    }
    return PW_OK;
}

void pw_memory_progress(pw_memory *memory) { memory->num_in_vain = 0; }

int pw_memory_is_short(const pw_memory *memory) { return memory->is_short; }

/* False: the pages would be brought in and taken away for ever. */
static bool may_page_in(pw_memory *memory, uint8_t *effects, uint64_t num_pages)
{
    if (!memory->pages_in_vain_max || memory->num_in_vain <= memory->pages_in_vain_max) return true;
    memset(effects, PW_EFFECT_NONE, num_pages);
    memory->num_in_vain = 0; /* the next transfer may need less */
    memory->is_short = true;
    return false;
}

int pw_memory_page_in(pw_memory *memory, uint64_t first_page, uint64_t num_pages, int for_write,
                      uint8_t *effects)
{
    uint64_t absent = 0;
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    if (num_pages == 0) return PW_OK;
    if (!may_page_in(memory, effects, num_pages)) return PW_ERR_FRAMES;
    int code = memory->asks_host ? page_in_where_mapped(memory, first_page, num_pages,
                                                        for_write != 0, effects, &absent)
                                 : memory->ops->populate(memory, first_page, num_pages,
                                                         for_write != 0, &absent, effects);
    memory->num_in_vain += absent;
    for (uint64_t i = 0; i < num_pages; i++)
        if (effects[i] != PW_EFFECT_NONE && effects[i] != PW_EFFECT_UNMAPPED)
            note_resident(memory, first_page + i, 1);
    return code;
}

void pw_memory_extent(pw_memory *memory, uint64_t page, uint64_t *first_page, uint64_t *num_pages)
{
    *first_page = page;
    *num_pages = 1;
    if (memory->has_huge_pages) memory->ops->extent(memory, page, first_page, num_pages);
}

int pw_memory_pin(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint64_t *num_absent)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    uint64_t absent = 0;
    pw_mappings_forget(&memory->mappings);
    int code = num_pages > 0 ? memory->ops->pin(memory, first_page, num_pages, &absent) : PW_OK;
    if (code == PW_OK) memory->counters.pinned_pages += num_pages;
    if (code == PW_OK) note_resident(memory, first_page, num_pages);
    if (num_absent) *num_absent = absent;
    return code;
}

int pw_memory_unpin(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    int code = num_pages > 0 ? memory->ops->unpin(memory, first_page, num_pages) : PW_OK;
    if (code == PW_OK) memory->counters.unpinned_pages += num_pages;
    return code;
}

int pw_memory_is_pinned(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (!is_range(first_page, num_pages)) return PW_ERR_INVALID;
    pw_mappings_forget(&memory->mappings); /* pins cut mappings */
    return num_pages > 0 ? memory->ops->is_pinned(memory, first_page, num_pages) : 1;
}

int pw_memory_next_private(pw_memory *memory, uint64_t from_page, uint64_t *first_page,
                           uint64_t *num_pages)
{
    if (memory->maps < 0) {
        errno = ENOTSUP;
        return PW_ERR_HOST;
    }
    pw_mapping mapping;
    pw_mappings_forget(&memory->mappings);
    for (uint64_t page = from_page;; page = mapping.end_page) {
        if (!is_range(page, 1)) return PW_ERR_ADDRESS;
        int code = pw_mappings_find(memory, page, &mapping);
        if (code < 0) return code;
        if (!mapping.is_file && (mapping.flags & VMA_WRITABLE) && !(mapping.flags & VMA_SHARED))
            break;
    }
    *first_page = mapping.first_page;
    *num_pages = mapping.end_page - mapping.first_page;
    return PW_OK;
}

int pw_memory_set(pw_memory *memory, uint64_t first_page, uint64_t num_pages, uint8_t state)
{
    bool is_state = state <= PW_PAGE_UNMAPPED || state == PW_PAGE_WRITE_PROTECTED;
    if (!is_range(first_page, num_pages) || !is_state || !memory->ops->set) return PW_ERR_INVALID;
    return num_pages > 0 ? memory->ops->set(memory, first_page, num_pages, state) : PW_OK;
}

int pw_memory_fork(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    if (num_pages != UINT64_MAX && !is_range(first_page, num_pages)) return PW_ERR_INVALID;
    return memory->ops->fork ? memory->ops->fork(memory, first_page, num_pages) : PW_OK;
}

uint64_t pw_memory_begin_transfer(pw_memory *memory, uint64_t first_page, uint64_t num_pages)
{
    return memory->ops->begin_transfer ? memory->ops->begin_transfer(memory, first_page, num_pages)
                                       : 0;
}

void pw_memory_read_counters(const pw_memory *memory, pw_memory_counters *out)
{
    *out = memory->counters;
}
