/* A descriptor's places in sets of epoll, which are the file's behind it: they go over to the one
 * that takes its place. */
#ifndef PW_SOCKETS_PRELOAD_REGISTRATIONS_H
#define PW_SOCKETS_PRELOAD_REGISTRATIONS_H

typedef struct pw_registration pw_registration;

/* Take it out of all sets of this process; NULL: it is in none. errno stays. */
pw_registration *pw_registrations_take(int fd);
/* Put it, or what is there now, into these sets again. Frees them; errno stays. */
void pw_registrations_put_back(int fd, pw_registration *taken);
#endif
