#include "transport/facade/mpi_users.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

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
