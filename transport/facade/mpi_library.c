#include "transport/facade/mpi_library.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Handles in registers: an int's caller need not extend it, and its callee reads the low half. On
 * other machines (RISC-V, POWER) the caller extends the sign, which a uint64_t does not. */
#if defined(__LP64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    (defined(__x86_64__) || defined(__aarch64__))
#define HANDLES_FIT 1
#else
#define HANDLES_FIT 0
#endif

typedef struct {
    const char *name;
    size_t offset; /* of the member */
} entry_point;

static const entry_point entry_points[] = {
    {"MPI_Isend", offsetof(pw_mpi_library, isend)},
    {"MPI_Recv_init", offsetof(pw_mpi_library, recv_init)},
    {"MPI_Start", offsetof(pw_mpi_library, start)},
    {"MPI_Test", offsetof(pw_mpi_library, test)},
    {"MPI_Wait", offsetof(pw_mpi_library, wait)},
    {"MPI_Cancel", offsetof(pw_mpi_library, cancel)},
    {"MPI_Request_free", offsetof(pw_mpi_library, request_free)},
    {"MPI_Iprobe", offsetof(pw_mpi_library, iprobe)},
    {"MPI_Get_count", offsetof(pw_mpi_library, get_count)},
    {"MPI_Status_set_elements_x", offsetof(pw_mpi_library, status_set_elements_x)},
    {"MPI_Status_set_cancelled", offsetof(pw_mpi_library, status_set_cancelled)},
    {"MPI_Reduce_local", offsetof(pw_mpi_library, reduce_local)},
    {"MPI_Error_string", offsetof(pw_mpi_library, error_string)},
};

static int find_all(void *module, const char *module_path, pw_mpi_library *out)
{
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        void *found = dlsym(module, entry_points[i].name);
        if (!found) {
            snprintf(out->reason, sizeof out->reason,
                     "the MPI library behind %.120s has no %s: take one of MPI 3.0 or newer",
                     module_path, entry_points[i].name);
            return PW_ERR_INVALID;
        }
        memcpy((char *)out + entry_points[i].offset, &found, sizeof found);
    }
    return PW_OK;
}

int pw_mpi_library_load(const char *module_path, const pw_mpi_facts *facts, pw_mpi_library *out)
{
    memset(out, 0, sizeof *out);
    if (!HANDLES_FIT) {
        snprintf(out->reason, sizeof out->reason,
                 "MPI is called from C on x86-64 and little-endian arm64 only; run there");
        return PW_ERR_INVALID;
    }
    const size_t status_end = sizeof(pw_mpi_status) - sizeof(int32_t);
    if (facts->source_offset > status_end || facts->tag_offset > status_end) {
        snprintf(out->reason, sizeof out->reason,
                 "an MPI status has source and tag at bytes %u and %u, allowed is at most %zu: "
                 "this MPI library is not supported",
                 facts->source_offset, facts->tag_offset, status_end);
        return PW_ERR_INVALID;
    }
    void *module = dlopen(module_path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (!module) {
        snprintf(out->reason, sizeof out->reason,
                 "%.180s is not loaded: import mpi4py.MPI before the node is made", module_path);
        return PW_ERR_INVALID;
    }
    int code = find_all(module, module_path, out);
    dlclose(module); /* the interpreter holds it */
    if (code) return code;
    out->byte = facts->byte;
    out->any_source = facts->any_source;
    out->any_tag = facts->any_tag;
    out->source_offset = facts->source_offset;
    out->tag_offset = facts->tag_offset;
    return PW_OK;
}

/* ---- libraries that call it themselves */

typedef struct {
    const char *own;
    char *out;
    size_t num_left;
} search;

typedef struct {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash, *hash;
} symbol_table;

/* Beginnings of names, behind MPI_. */
static const char *const moving[] = {
    "Send",     "Isend",     "Bsend",     "Ibsend",     "Ssend",      "Issend",    "Rsend",
    "Irsend",   "Recv",      "Irecv",     "Start",      "Barrier",    "Ibarrier",  "Bcast",
    "Ibcast",   "Gather",    "Igather",   "Scatter",    "Iscatter",   "Allgather", "Iallgather",
    "Alltoall", "Ialltoall", "Allreduce", "Iallreduce", "Reduce",     "Ireduce",   "Scan",
    "Exscan",   "Neighbor",  "Ineighbor", "Put",        "Accumulate", "Rput",      "Win_fence",
};

static bool moves_data(const char *name)
{
    if (strncmp(name, "MPI_", 4) != 0 || !strcmp(name, "MPI_Reduce_local")) return false;
    for (size_t i = 0; i < sizeof moving / sizeof *moving; i++)
        if (!strncmp(name + 4, moving[i], strlen(moving[i]))) return true;
    return false;
}

/* The C library writes addresses into some objects' tables, and leaves others as they were. */
static const void *at(const struct dl_phdr_info *object, ElfW(Addr) address)
{
    return (const void *)(address < object->dlpi_addr ? object->dlpi_addr + address : address);
}

static symbol_table symbols_of(const struct dl_phdr_info *object)
{
    symbol_table found = {0};
    const ElfW(Dyn) *entry = NULL;
    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *table = at(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB) found.symbols = table;
        if (entry->d_tag == DT_STRTAB) found.names = table;
        if (entry->d_tag == DT_GNU_HASH) found.gnu_hash = table;
        if (entry->d_tag == DT_HASH) found.hash = table;
    }
    return found;
}

/* Undefined symbols come before those of the GNU hash table, whose second word says where it
 * begins. */
static bool calls_mpi(const symbol_table *table)
{
    const uint32_t *hash = table->gnu_hash ? table->gnu_hash : table->hash;
    if (!table->symbols || !table->names || !hash) return false;
    for (uint32_t i = 1; i < hash[1]; i++) {
        const ElfW(Sym) *symbol = &table->symbols[i];
        if (symbol->st_shndx == SHN_UNDEF && moves_data(table->names + symbol->st_name))
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *object, size_t num_bytes, void *context)
{
    (void)num_bytes;
    search *all = context;
    const char *slash = strrchr(object->dlpi_name, '/');
    if (!slash || !strcmp(object->dlpi_name, all->own)) return 0;
    const symbol_table table = symbols_of(object);
    const size_t num_chars = strlen(slash); /* the newline stands for the slash */
    if (!calls_mpi(&table) || num_chars >= all->num_left) return 0;
    snprintf(all->out, all->num_left, "%s\n", slash + 1);
    all->out += num_chars;
    all->num_left -= num_chars;
    return 0;
}

void pw_mpi_users(const char *own, char *out, size_t num_bytes)
{
    search all = {.own = own, .out = out, .num_left = num_bytes};
    *out = '\0';
    dl_iterate_phdr(look, &all);
}
