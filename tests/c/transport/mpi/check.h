/* What the MPI programs of the tests share. Each file registers programs, all of them make one
 * executable; `mpi_programs NAME...` runs some of them one after the other between one MPI_Init and
 * MPI_Finalize. A program checks itself: rank 0 prints "ok NAME", or the rank that saw something
 * wrong says what and aborts the run. */
#ifndef PW_TESTS_MPI_CHECK_H
#define PW_TESTS_MPI_CHECK_H
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

extern int check_rank, check_size; /* in MPI_COMM_WORLD */
extern int check_thread_level;
extern const char *check_command; /* this executable, for programs that start it again */

typedef struct check_program {
    const char *name;
    void (*run)(void);
    struct check_program *next;
} check_program;

void check_register(check_program *program);
void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define CHECK_PROGRAM(name)                                          \
    static void run_##name(void);                                    \
    static check_program program_##name = {#name, run_##name, NULL}; \
    __attribute__((constructor)) static void register_##name(void)   \
    {                                                                \
        check_register(&program_##name);                             \
    }                                                                \
    static void run_##name(void)

/* CHECK(condition, format, ...): what is wrong when the condition does not hold. */
#define CHECK(condition, ...)                                            \
    do {                                                                 \
        if (!(condition)) check_failed(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* Equal whole numbers. */
#define CHECK_INT(got, wanted, what)                                                  \
    CHECK((long long)(got) == (long long)(wanted), "%s is %lld, expected %lld", what, \
          (long long)(got), (long long)(wanted))

/* The neighbour in a pair (0,1), (2,3)...; the rank itself when it has none. */
int check_partner(void);

/* Fresh pages, none of them resident: what the NI meets first is a page fault. */
void *check_map(size_t size_bytes);
void check_unmap(void *address, size_t size_bytes);
/* Makes whole pages absent and zero again. */
void check_drop(void *address, size_t size_bytes);

/* Contents that depend on a seed and on each byte's index. */
void check_fill(void *address, size_t size_bytes, uint32_t seed);
void check_contents(const void *address, size_t size_bytes, uint32_t seed, const char *what);
/* All bytes have one value. */
void check_bytes(const void *address, size_t size_bytes, int value, const char *what);

#endif
