/* Finding the MPI library's own functions and those of the C library. */
#include "transport/marks/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/marks/marked.h"

/* In an object that was loaded for another one alone, by dlopen: Python's modules and what they
 * bring are not where RTLD_NEXT looks. One process, one MPI: the first that has it is the one. */
static void *find_in_any(const char *name)
{
    Dl_info info;
    struct link_map *self = NULL;
    struct link_map *map = NULL;
    void *main_program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    void *found = NULL;
    if (!main_program || dlinfo(main_program, RTLD_DI_LINKMAP, &map) != 0 ||
        dladdr1(&pw_marks_host, &info, (void **)&self, RTLD_DL_LINKMAP) == 0)
        map = NULL;
    for (; map && !found; map = map->l_next) {
        if (map == self || map->l_name[0] == '\0') continue;
        void *object = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        if (!object) continue;
        found = dlsym(object, name);
        dlclose(object);
    }
    if (main_program) dlclose(main_program);
    return found;
}

void *pw_marks_find(const char *names)
{
    /* What the program would have called without this library, so that a profiling library
     * between the two stays there. */
    for (const char *name = names; *name; name += strlen(name) + 1) {
        void *found = dlsym(RTLD_NEXT, name);
        if (found) return found;
    }
    for (const char *name = names; *name; name += strlen(name) + 1) {
        void *found = find_in_any(name);
        if (found) return found;
    }
    return NULL;
}

void *pw_marks_resolve(_Atomic(void *) *found, const char *names)
{
    void *own = pw_marks_find(names);
    if (!own) {
        /* The dynamic linker would have refused the program with these words, and this status. */
        fprintf(stderr,
                "pagewire: the program calls %s, which no MPI library of this process has; "
                "use an MPI that has it, or run without libpagewire-mpi.so in LD_PRELOAD\n",
                names);
        _exit(127);
    }
    atomic_store_explicit(found, own, memory_order_relaxed);
    return own;
}
