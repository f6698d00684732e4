#include "check.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int check_rank, check_size, check_thread_level;
const char *check_command;

static check_program *programs;
static const char *current = "mpi_programs";

void check_register(check_program *program)
{
    program->next = programs;
    programs = program;
}

void check_failed(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    char text[512];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name = strrchr(file, '/');
    fprintf(stderr, "%s: rank %d: %s:%d: %s\n", current, check_rank, name ? name + 1 : file, line,
            text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

int check_partner(void)
{
    int partner = check_rank ^ 1;
    return partner < check_size ? partner : check_rank;
}

void *check_map(size_t size_bytes)
{
    void *address =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(address != MAP_FAILED, "no %zu bytes of memory", size_bytes);
    return address;
}

void check_unmap(void *address, size_t size_bytes)
{
    CHECK(!munmap(address, size_bytes), "munmap of %zu bytes failed", size_bytes);
}

void check_drop(void *address, size_t size_bytes)
{
    CHECK(!madvise(address, size_bytes, MADV_DONTNEED), "madvise of %zu bytes failed", size_bytes);
}

static uint64_t word_of(uint64_t index, uint32_t seed)
{
    uint64_t word = (index + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)seed * 0xd6e8feb86659fd93u;
    return word ^ word >> 29;
}

void check_fill(void *address, size_t size_bytes, uint32_t seed)
{
    uint8_t *bytes = address;
    for (size_t at = 0; at < size_bytes; at += 8) {
        uint64_t word = word_of(at / 8, seed);
        memcpy(bytes + at, &word, size_bytes - at < 8 ? size_bytes - at : 8);
    }
}

void check_contents(const void *address, size_t size_bytes, uint32_t seed, const char *what)
{
    const uint8_t *bytes = address;
    for (size_t at = 0; at < size_bytes; at += 8) {
        uint64_t word = word_of(at / 8, seed);
        size_t num_bytes = size_bytes - at < 8 ? size_bytes - at : 8;
        CHECK(!memcmp(bytes + at, &word, num_bytes), "%s: wrong contents near byte %zu of %zu",
              what, at, size_bytes);
    }
}

void check_bytes(const void *address, size_t size_bytes, int value, const char *what)
{
    const uint8_t *bytes = address;
    for (size_t i = 0; i < size_bytes; i++)
        CHECK(bytes[i] == value, "%s: byte %zu of %zu is %d, expected %d", what, i, size_bytes,
              bytes[i], value);
}

static void run_program(const char *name)
{
    for (check_program *program = programs; program; program = program->next) {
        if (strcmp(program->name, name)) continue;
        current = program->name;
        program->run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0) {
            printf("ok %s\n", name);
            fflush(stdout);
        }
        return;
    }
    CHECK(0, "there is no program '%s'", name);
}

int main(int num_arguments, char **arguments)
{
    int first = 1;
    check_command = arguments[0];
    if (num_arguments > 1 && !strcmp(arguments[1], "--threads")) {
        MPI_Init_thread(&num_arguments, &arguments, MPI_THREAD_MULTIPLE, &check_thread_level);
        first = 2;
    } else {
        MPI_Init(&num_arguments, &arguments);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    for (int i = first; i < num_arguments; i++) run_program(arguments[i]);
    MPI_Finalize();
    return 0;
}
