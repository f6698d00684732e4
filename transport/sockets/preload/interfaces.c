/* The node's interface of the emulated network, for programs that choose their address from a list
 * of interfaces: in front of the kernel's. See calls.c. */
#include "transport/sockets/preload/preload.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>

#define INTERFACE_NAME "pagewire0"
#define NETWORK_MASK 0xFFFF0000u

typedef struct {
    struct ifaddrs entry; /* the first of the list */
    struct sockaddr_in address, mask, broadcast;
    char name[sizeof INTERFACE_NAME];
} shown_interface;

EXPORT int getifaddrs(struct ifaddrs **list)
{
    struct sockaddr_in own;
    int code = NEXT(getifaddrs)(list);
    if (code || !read_own_address(&own)) return code;
    shown_interface *made = malloc(sizeof *made);
    if (!made) {
        NEXT(freeifaddrs)(*list);
        errno = ENOMEM;
        return -1;
    }
    *made =
        (shown_interface){.address = own, .mask = own, .broadcast = own, .name = INTERFACE_NAME};
    made->mask.sin_addr.s_addr = htonl(NETWORK_MASK);
    made->broadcast.sin_addr.s_addr |= htonl(~NETWORK_MASK);
    made->entry = (struct ifaddrs){.ifa_next = *list,
                                   .ifa_name = made->name,
                                   .ifa_flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST,
                                   .ifa_addr = (struct sockaddr *)&made->address,
                                   .ifa_netmask = (struct sockaddr *)&made->mask,
                                   .ifa_broadaddr = (struct sockaddr *)&made->broadcast};
    *list = &made->entry;
    return 0;
}

/* The first entry is ours if its name is where we put it. */
EXPORT void freeifaddrs(struct ifaddrs *list)
{
    shown_interface *made = (shown_interface *)list;
    bool is_ours = list && list->ifa_addr == (struct sockaddr *)&made->address;
    NEXT(freeifaddrs)(is_ours ? list->ifa_next : list);
    if (is_ours) free(made);
}
