#include "transport/fabric/listener_probe.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* Each look leaves a closed connection in the queue of a listener that accepts none meanwhile: ever
 * more seldom, so that the queue does not fill up. */
#define FIRST_PERIOD_NS INT64_C(1000000000)
#define LAST_PERIOD_NS (64 * FIRST_PERIOD_NS)

/* Other errors say something of this process only, e.g. that it has no file descriptor left. */
static int error_of_listener(int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ETIMEDOUT: return error;
    default: return 0;
    }
}

static int finish(pw_listener_probe *probe, int error, int64_t now_ns)
{
    if (probe->fd >= 0) close(probe->fd);
    probe->is_connecting = false;
    if (probe->period_ns < LAST_PERIOD_NS) probe->period_ns *= 2;
    probe->next_ns = now_ns + probe->period_ns;
    return error_of_listener(error);
}

static int begin(pw_listener_probe *probe, const struct sockaddr *address, socklen_t num_bytes,
                 int64_t now_ns)
{
    probe->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe->fd < 0) return finish(probe, errno, now_ns);
    const int error = connect(probe->fd, address, num_bytes) ? errno : 0;
    if (error != EINPROGRESS) return finish(probe, error, now_ns);
    probe->is_connecting = true;
    return 0;
}

int pw_listener_probe_ask(pw_listener_probe *probe, const struct sockaddr *address,
                          socklen_t num_bytes, int64_t now_ns)
{
    if (!probe->period_ns) {
        probe->period_ns = FIRST_PERIOD_NS;
        probe->next_ns = now_ns + FIRST_PERIOD_NS;
    }
    if (probe->is_connecting) {
        struct pollfd connected = {.fd = probe->fd, .events = POLLOUT};
        int error = 0;
        socklen_t error_bytes = sizeof error;
        if (poll(&connected, 1, 0) != 1) return 0;
        if (getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes)) error = errno;
        return finish(probe, error, now_ns);
    }
    return now_ns < probe->next_ns ? 0 : begin(probe, address, num_bytes, now_ns);
}

void pw_listener_probe_clear(pw_listener_probe *probe)
{
    if (probe->is_connecting) close(probe->fd);
    *probe = (pw_listener_probe){0};
}
