/* MPI_Pcontrol: what a program tells a profiler. Here it marks the regions of a run:
 *
 *     MPI_Pcontrol(1, "name")    enters, MPI_Pcontrol(-1, "name") leaves: as IPM has it
 *     MPI_Pcontrol(n), n >= 3    enters "level n", MPI_Pcontrol(-n) leaves it: a number is all that
 *                                the modules of Fortran take
 *     MPI_Pcontrol(-1)           leaves the innermost one
 *     MPI_Pcontrol(0), (1), (2)  are the standard's: off, on, flush. They do nothing.
 *
 * A level of 1 or -1 may come without a name: then its place holds whatever a register held. So it
 * is a name when it points to text that can be read, of printable ASCII, short and ended. The name
 * is no variable argument here, as on the machines of marked.h it takes the place of one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "transport/marks/marked.h"

#define NAME_BYTES 64 /* with the 0 */
#define FIRST_NUMBER 3

typedef int own_function(int level, ...);

static uintptr_t page_bytes(void) { return (uintptr_t)sysconf(_SC_PAGESIZE); }

/* Bytes of one page, without a signal where nothing is; how many could be had. */
static size_t copy(char *out, uintptr_t address, size_t num_bytes)
{
    const struct iovec to = {out, num_bytes}, from = {(void *)address, num_bytes};
    const ssize_t count = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (count >= 0) return (size_t)count;
    if (errno != EPERM && errno != ENOSYS) return 0;
    unsigned char state; /* a container's rules forbid it: see at least that the page is mapped */
    if (mincore((void *)(address & ~(page_bytes() - 1)), 1, &state) < 0) return 0;
    memcpy(out, (const void *)address, num_bytes);
    return num_bytes;
}

static size_t read_some(char *out, uintptr_t address, size_t room)
{
    const size_t to_end = page_bytes() - (address & (page_bytes() - 1));
    const size_t first = room < to_end ? room : to_end;
    size_t count = copy(out, address, first);
    if (count == first && first < room && !memchr(out, 0, first))
        count += copy(out + first, address + first, room - first);
    return count;
}

/* Bytes of the name that the word points to, in `out`; 0: it points to none. text_bytes: its length
 * where that is known; else 0. */
static size_t read_name(pw_word word, pw_word text_bytes, char out[NAME_BYTES])
{
    if (word < page_bytes()) return 0;
    const size_t room = text_bytes && text_bytes < NAME_BYTES ? text_bytes : NAME_BYTES;
    const size_t count = read_some(out, word, room);
    const char *end = memchr(out, 0, count);
    size_t num_bytes = end ? (size_t)(end - out) : room;
    if (num_bytes > count || num_bytes == NAME_BYTES) return 0;
    while (num_bytes && out[num_bytes - 1] == ' ') num_bytes--; /* as Fortran pads */
    for (size_t i = 0; i < num_bytes; i++)
        if (out[i] < ' ' || out[i] > '~') return 0;
    return num_bytes;
}

static void tell(const pagewire_marks_host *host, int level, const char *name, size_t num_bytes,
                 uintptr_t frame)
{
    pw_marks_thread *thread = &pw_marks_this_thread;
    const uintptr_t outermost = thread->outermost;
    if (!pw_marks_is_inside(thread, frame)) thread->outermost = UINTPTR_MAX;
    if (level > 0) host->region_enter(name, num_bytes);
    else host->region_leave(name, num_bytes);
    thread->outermost = outermost;
}

static int mark(int level, pw_word word, pw_word text_bytes, uintptr_t frame)
{
    static _Atomic(void *) found;
    const pagewire_marks_host *host = atomic_load_explicit(&pw_marks_host, memory_order_acquire);
    own_function *own = pw_marks_own(&found, "MPI_Pcontrol\0PMPI_Pcontrol\0");
    const long long number = level < 0 ? -(long long)level : level;
    char name[NAME_BYTES];
    if (host && number == 1) {
        const size_t num_bytes = read_name(word, text_bytes, name);
        if (level < 0 || num_bytes) tell(host, level, name, num_bytes, frame);
    } else if (host && number >= FIRST_NUMBER) {
        const int num_bytes = snprintf(name, sizeof name, "level %lld", number);
        tell(host, level, name, (size_t)num_bytes, frame);
    }
    return own(level, word);
}

PW_MARKS_EXPORTED int MPI_Pcontrol(int level, pw_word name)
{
    return mark(level, name, 0, pw_marks_frame());
}

/* The MPI library's own Fortran function is not asked: it would write an error code to where the
 * name stands. */
PW_MARKS_EXPORTED void mpi_pcontrol_(const int *level, pw_word name, pw_word name_bytes)
{
    (void)mark(*level, name, name_bytes, pw_marks_frame());
}

typedef void fortran(const int *level, pw_word name, pw_word name_bytes);
#define FORTRAN(name) PW_MARKS_EXPORTED fortran name __attribute__((alias("mpi_pcontrol_")));
FORTRAN(mpi_pcontrol__)
FORTRAN(mpi_pcontrol)
FORTRAN(MPI_PCONTROL)
FORTRAN(mpi_pcontrol_f08_)
FORTRAN(ompi_pcontrol_f)
