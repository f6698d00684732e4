/* malloc and its family inside of our shared objects: their memory is the emulator's own. Linked
 * with them and hidden, so nobody else's calls come here; what somebody else has allocated goes
 * back where it is from. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/own_memory.h"

#define HIDDEN __attribute__((visibility("hidden")))

typedef void (*plain)(void);

/* The process's function of that name, a preloaded library's included; looked for once. It is
 * there: our objects need the C library. */
static plain others(_Atomic(plain) *known, const char *name)
{
    plain found = atomic_load_explicit(known, memory_order_relaxed);
    if (!found) {
        *(void **)&found = dlsym(RTLD_DEFAULT, name);
        atomic_store_explicit(known, found, memory_order_relaxed);
    }
    return found;
}

HIDDEN void *malloc(size_t num_bytes)
{
    static _Atomic(plain) known;
    void *memory = pw_own_allocate(num_bytes, 1);
    return memory ? memory : ((void *(*)(size_t))others(&known, "malloc"))(num_bytes);
}

HIDDEN void *aligned_alloc(size_t alignment, size_t num_bytes)
{
    static _Atomic(plain) known;
    void *memory = pw_own_allocate(num_bytes, alignment);
    if (memory) return memory;
    return ((void *(*)(size_t, size_t))others(&known, "aligned_alloc"))(alignment, num_bytes);
}

HIDDEN void *calloc(size_t count, size_t each_bytes)
{
    static _Atomic(plain) known;
    size_t num_bytes;
    if (__builtin_mul_overflow(count, each_bytes, &num_bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = pw_own_allocate(num_bytes, 1);
    if (!memory) return ((void *(*)(size_t, size_t))others(&known, "calloc"))(count, each_bytes);
    return memset(memory, 0, num_bytes);
}

HIDDEN void free(void *memory)
{
    static _Atomic(plain) known;
    if (!memory) return;
    if (pw_own_is_ours(memory)) pw_own_release(memory);
    else ((void (*)(void *))others(&known, "free"))(memory);
}

HIDDEN void *realloc(void *memory, size_t num_bytes)
{
    static _Atomic(plain) known;
    if (!memory) return malloc(num_bytes);
    if (!pw_own_is_ours(memory))
        return ((void *(*)(void *, size_t))others(&known, "realloc"))(memory, num_bytes);
    const size_t room = pw_own_room(memory);
    if (num_bytes && num_bytes <= room) return memory;
    void *bigger = num_bytes ? malloc(num_bytes) : NULL;
    if (num_bytes && !bigger) return NULL;
    if (bigger) memcpy(bigger, memory, room);
    free(memory);
    return bigger;
}

HIDDEN void *reallocarray(void *memory, size_t count, size_t each_bytes)
{
    size_t num_bytes;
    if (!__builtin_mul_overflow(count, each_bytes, &num_bytes)) return realloc(memory, num_bytes);
    errno = ENOMEM;
    return NULL;
}
