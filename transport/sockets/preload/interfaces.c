/* The node's interface of the emulated network, for programs that choose their address from a list
 * of interfaces: in front of the kernel's. See calls.c. */
#include "transport/sockets/preload/preload.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define INTERFACE_NAME "pagewire0"
#define INTERFACE_INDEX 0x4D00 /* the kernel counts from 1 */
#define INTERFACE_MTU 65535
#define INTERFACE_FLAGS (IFF_UP | IFF_RUNNING | IFF_BROADCAST)
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
                                   .ifa_flags = INTERFACE_FLAGS,
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

/* The older list: ours in front, the kernel's behind it as far as there is room. */
static int list_by_ioctl(int fd, struct ifconf *list, const struct sockaddr_in *own)
{
    struct ifconf rest = *list;
    struct ifreq first = {.ifr_name = INTERFACE_NAME};
    bool has_room = list->ifc_buf && list->ifc_len >= (int)sizeof first;
    memcpy(&first.ifr_addr, own, sizeof *own);
    if (has_room) {
        rest.ifc_req = list->ifc_req + 1;
        rest.ifc_len -= (int)sizeof first;
    }
    int code = NEXT(ioctl)(fd, SIOCGIFCONF, &rest);
    if (code) return code;
    if (has_room) *list->ifc_req = first;
    list->ifc_len = rest.ifc_len + (has_room || !list->ifc_buf ? (int)sizeof first : 0);
    return 0;
}

/* false: the kernel is to say what it does not have. */
static bool tell_by_ioctl(unsigned long what, struct ifreq *asked, struct sockaddr_in told)
{
    if (strncmp(asked->ifr_name, INTERFACE_NAME, IFNAMSIZ)) return false;
    if (what == SIOCGIFNETMASK) told.sin_addr.s_addr = htonl(NETWORK_MASK);
    if (what == SIOCGIFBRDADDR) told.sin_addr.s_addr |= htonl(~NETWORK_MASK);
    memset(&asked->ifr_ifru, 0, sizeof asked->ifr_ifru);
    switch (what) {
    case SIOCGIFADDR:
    case SIOCGIFNETMASK:
    case SIOCGIFBRDADDR: memcpy(&asked->ifr_addr, &told, sizeof told); return true;
    case SIOCGIFFLAGS: asked->ifr_flags = INTERFACE_FLAGS; return true;
    case SIOCGIFINDEX: asked->ifr_ifindex = INTERFACE_INDEX; return true;
    case SIOCGIFMTU: asked->ifr_mtu = INTERFACE_MTU; return true;
    case SIOCGIFHWADDR: return true;
    default: return false;
    }
}

EXPORT int ioctl(int fd, unsigned long what, ...)
{
    struct sockaddr_in own;
    va_list rest;
    va_start(rest, what);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (what >> 8 != SIOCGIFCONF >> 8 || !argument || !read_own_address(&own))
        return NEXT(ioctl)(fd, what, argument);
    if (what == SIOCGIFCONF) return list_by_ioctl(fd, argument, &own);
    return tell_by_ioctl(what, argument, own) ? 0 : NEXT(ioctl)(fd, what, argument);
}
