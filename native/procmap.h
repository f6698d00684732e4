/* What the kernel answers of a mapping (PROCMAP_QUERY, Linux 6.11), for C libraries that do not
 * name it. */
#ifndef PW_NATIVE_PROCMAP_H
#define PW_NATIVE_PROCMAP_H
#include <stdint.h>
#include <sys/ioctl.h>

/* linux/fs.h, since Linux 6.11. */
struct procmap_question {
    uint64_t size, flags, address;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name_address, build_id_address;
};
_Static_assert(sizeof(struct procmap_question) == 104, "struct procmap_query of the kernel");
#define PROCMAP_QUESTION _IOWR('f', 17, struct procmap_question)
#define VMA_READABLE 0x01u
#define VMA_WRITABLE 0x02u
#define VMA_SHARED 0x08u
#define COVERING_OR_NEXT 0x10u

#endif
