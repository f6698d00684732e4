/* The names of ExaNoDe's library for shared memory [D3.6 2.3], over unimem.h: a program of the
 * deliverable compiles with this header. It has one node a process: say which before the first
 * call, by atomic_use. A program that remoteFork has started says nothing.
 *
 * A pointer is an address of the global space, whose upper 16 bits are the owner's node; it cannot
 * be followed by the CPU. An allocation that fails returns NULL; any other call on an address that
 * is not there, or that its rights forbid, ends the program, as in the prototype. */
#ifndef ATOMIC_H
#define ATOMIC_H

#include "unimem.h"
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATOMIC_NO_PARENT UINT64_C(0xCAFEFEBEBEADBEFF) /* readThreadArgument without one */

typedef struct {
    unimem *memory;
    uint64_t argument; /* of the fork that made this program */
} atomic_context;

static inline atomic_context *atomic_slot(void)
{
    static atomic_context own = {NULL, ATOMIC_NO_PARENT};
    return &own;
}

/* argument: of the fork, or ATOMIC_NO_PARENT. */
static inline void atomic_use(unimem *memory, uint64_t argument)
{
    const atomic_context given = {memory, argument};
    *atomic_slot() = given;
}

static inline const atomic_context *atomic_own(void)
{
    atomic_context *own = atomic_slot();
    if (own->memory || unimem_forked(&own->memory, &own->argument) >= 0) return own;
    fprintf(stderr, "atomic.h: no node: call atomic_use first, or let remoteFork start this\n");
    exit(EXIT_FAILURE);
}

/* The result, or the end of the program with the reason. */
static inline int atomic_checked(int result, const char *call, const volatile void *pointer)
{
    if (result >= 0) return result;
    fprintf(stderr, "%s(%p): %s\n", call, (void *)(uintptr_t)pointer,
            unimem_reason(atomic_own()->memory));
    exit(EXIT_FAILURE);
}

#define ATOMIC_DO(call, pointer, ...)                                                       \
    atomic_checked(call(atomic_own()->memory, (uint64_t)(uintptr_t)(pointer), __VA_ARGS__), \
                   __func__, pointer)

static inline uint32_t getNumberBoards(void) { return unimem_num_nodes(atomic_own()->memory); }
static inline uint32_t getBoardPid(void) { return unimem_node(atomic_own()->memory); }

static inline void *allocSharedPage(uint16_t quantity, uint32_t bid)
{
    uint64_t address = 0;
    int code = unimem_alloc(atomic_own()->memory, bid, quantity, 0, &address);
    return code < 0 ? NULL : (void *)(uintptr_t)address;
}

static inline void freeSharedPage(void *pointer)
{
    atomic_checked(unimem_free(atomic_own()->memory, (uint64_t)(uintptr_t)pointer), __func__,
                   pointer);
}

static inline uint8_t READ8(const volatile void *pointer)
{
    uint8_t value = 0;
    ATOMIC_DO(unimem_read8, pointer, &value);
    return value;
}

static inline uint32_t READ32(const volatile void *pointer)
{
    uint32_t value = 0;
    ATOMIC_DO(unimem_read32, pointer, &value);
    return value;
}

static inline uint64_t READ64(const volatile void *pointer)
{
    uint64_t value = 0;
    ATOMIC_DO(unimem_read64, pointer, &value);
    return value;
}

/* A page to the buffer; how many bytes. */
static inline int READ4K(const volatile void *pointer, void *buffer)
{
    return ATOMIC_DO(unimem_read4k, pointer, buffer);
}

static inline void WRITE8(volatile void *pointer, uint8_t value)
{
    ATOMIC_DO(unimem_write8, pointer, value);
}

static inline void WRITE32(volatile void *pointer, uint32_t value)
{
    ATOMIC_DO(unimem_write32, pointer, value);
}

static inline void WRITE64(volatile void *pointer, uint64_t value)
{
    ATOMIC_DO(unimem_write64, pointer, value);
}

static inline void WRITE128(volatile void *pointer, uint64_t low, uint64_t high)
{
    ATOMIC_DO(unimem_write128, pointer, low, high);
}

/* 1: the word was `expected`, and is `wanted`; 0: it was not. */
static inline int CAS64(volatile void *pointer, uint64_t expected, uint64_t wanted)
{
    return ATOMIC_DO(unimem_cas, pointer, expected, wanted);
}

/* Fetch and add: the old value. */
static inline uint64_t FAD64(volatile void *pointer, uint64_t value)
{
    uint64_t old = 0;
    ATOMIC_DO(unimem_faa, pointer, value, &old);
    return old;
}

static inline uint64_t SWAP64(volatile void *pointer, uint64_t value)
{
    uint64_t old = 0;
    ATOMIC_DO(unimem_swap, pointer, value, &old);
    return old;
}

/* Start the executable file at the board: 0, or -1 where that cannot be. Its output goes to
 * `exec-x-stdout.log` there, x: the child's id. */
static inline int remoteFork(const char *filename, uint64_t arg, uint32_t bid)
{
    return unimem_fork(atomic_own()->memory, bid, filename, arg, NULL) < 0 ? -1 : 0;
}

static inline uint64_t readThreadArgument(void) { return atomic_own()->argument; }

#undef ATOMIC_DO

#ifdef __cplusplus
}
#endif

#endif
