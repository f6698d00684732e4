/* Ids of threads, unique in the system: node and interface. The driver writes them to the trusted
 * page of the packetizer, whose hardware puts them into each packet. */
#ifndef PW_UNIMEM_SENDER_H
#define PW_UNIMEM_SENDER_H
#include <stdint.h>

static inline uint64_t pw_sender_id(uint32_t node, uint32_t interface)
{
    return (uint64_t)node << 8 | interface;
}
static inline uint32_t pw_sender_node(uint64_t id) { return (uint32_t)(id >> 8); }
static inline uint32_t pw_sender_interface(uint64_t id) { return (uint32_t)(id & 0xff); }
#endif
