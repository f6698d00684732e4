/* The host and what it is told; and finding the MPI library's own functions and those of the C
 * library. */
#include "transport/marks/marked.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__thread pw_marks_thread pw_marks_this_thread __attribute__((tls_model("initial-exec")));
_Atomic(const pagewire_marks_host *) pw_marks_host;

/* Counts the hosts that came and went, so that none is told the end of a call that it was not in.
 */
static _Atomic uint32_t attachment;

/* A forked child has no MPI and no virtual clock: the host's state is a copy that nobody moves. */
static void forget_host(void)
{
    atomic_store_explicit(&pw_marks_host, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&attachment, 1, memory_order_relaxed);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_host); }

PW_MARKS_EXPORTED int pagewire_marks_attach(const pagewire_marks_host *host)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (host && (host->version != PAGEWIRE_MARKS_VERSION || host->struct_size < sizeof *host))
        return -1;
    const pagewire_marks_host *last = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    if (last == host) return 0;
    if (last) {
        atomic_store_explicit(&pw_marks_host, NULL, memory_order_release);
        pw_clocks_stop(last);
    }
    const uint32_t number = atomic_fetch_add_explicit(&attachment, 1, memory_order_relaxed) + 1;
    if (host) {
        pw_marks_thread *thread = &pw_marks_this_thread;
        pthread_once(&once, watch_forks);
        pw_clocks_start(host);
        atomic_store_explicit(&pw_marks_host, host, memory_order_release);
        if (pw_marks_is_inside(thread, pw_marks_frame())) thread->attachment = number;
    }
    return 0;
}

static void tell_exit(pw_marks_thread *thread)
{
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    const bool is_same =
        thread->attachment == atomic_load_explicit(&attachment, memory_order_relaxed);
    thread->attachment = 0;
    if (host && is_same) host->leave(thread->call);
}

void *pw_marks_enter(_Atomic(void *) *found, const char *names, const pagewire_marked_call *call,
                     uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    void *own = pw_marks_own(found, names);
    if (pw_marks_is_inside(thread, frame)) return own;
    thread->outermost = frame;
    thread->uses_mpi = true;
    if (thread->attachment) tell_exit(thread);
    thread->call = call;
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    if (host) {
        thread->attachment = atomic_load_explicit(&attachment, memory_order_relaxed);
        host->enter(call);
    } else pw_marks_record_start(call);
    return own;
}

void pw_marks_leave(uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    if (thread->outermost != frame) return; /* within another call */
    if (thread->attachment) tell_exit(thread);
    else if (!atomic_load_explicit(&pw_marks_host, memory_order_relaxed))
        pw_marks_check_provider(thread->call);
    thread->outermost = 0;
}

/* ---- what a wrapper stands before */

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
