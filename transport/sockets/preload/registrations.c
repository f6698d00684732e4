#include "transport/sockets/preload/preload.h"
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS (1 << 20) /* what Linux allows by default */

struct pw_registration {
    pw_registration *next;
    int set;
    struct epoll_event event;
};

/* What the kernel has is read only for descriptors that may be in a set: this takes a look at every
 * descriptor of the process, and most programs add a socket after its bind or connect. */
static _Atomic bool may_be_in_set[DESCRIPTORS];

EXPORT int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
    if (operation == EPOLL_CTL_ADD && fd >= 0 && fd < DESCRIPTORS) {
        int saved = errno, domain = read_option(fd, SOL_SOCKET, SO_DOMAIN);
        errno = saved;
        if (domain == AF_INET || domain == AF_INET6) may_be_in_set[fd] = true;
    }
    return NEXT(epoll_ctl)(set, operation, fd, event);
}

static bool is_set(const char *number)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%.20s", number);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return false;
    target[length] = 0;
    return !strcmp(target, "anon_inode:[eventpoll]");
}

/* NULL: it is not in this set, or another file of its number was. */
static pw_registration *find_in(int set, int fd, uint64_t inode)
{
    char path[64], line[256];
    pw_registration *found = NULL;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        int number;
        unsigned events;
        unsigned long long data, its_inode;
        if (sscanf(line, "tfd: %d events: %x data: %llx pos:%*d ino:%llx", &number, &events, &data,
                   &its_inode) != 4 ||
            number != fd || its_inode != inode)
            continue;
        if (!(found = malloc(sizeof *found))) break;
        *found = (pw_registration){.set = set, .event = {.events = events, .data.u64 = data}};
    }
    if (file) fclose(file);
    return found;
}

pw_registration *pw_registrations_take(int fd)
{
    struct stat facts;
    pw_registration *taken = NULL;
    int saved = errno;
    if (fd < 0 || fd >= DESCRIPTORS || !may_be_in_set[fd] || fstat(fd, &facts)) return NULL;
    DIR *descriptors = opendir("/proc/self/fd");
    for (const struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        if (!is_set(entry->d_name)) continue;
        pw_registration *found = find_in(atoi(entry->d_name), fd, facts.st_ino);
        if (!found) continue;
        NEXT(epoll_ctl)(found->set, EPOLL_CTL_DEL, fd, NULL);
        found->next = taken;
        taken = found;
    }
    if (descriptors) closedir(descriptors);
    may_be_in_set[fd] = taken != NULL;
    errno = saved;
    return taken;
}

void pw_registrations_put_back(int fd, pw_registration *taken)
{
    int saved = errno;
    while (taken) {
        pw_registration *one = taken;
        taken = one->next;
        NEXT(epoll_ctl)(one->set, EPOLL_CTL_ADD, fd, &one->event);
        free(one);
    }
    errno = saved;
}
