#include "unimem/kernel_mailbox.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

#define OPCODE(opcode, rest) ((uint64_t)(opcode) << UNIMEM_OPCODE_SHIFT | (rest))

static int num_calls, num_signals;
static uint64_t last_value;

static void called(void *context, uint32_t source, uint64_t value, int64_t time_ns)
{
    assert(context == &num_calls && source == 1 && time_ns == 50);
    last_value = value;
    num_calls++;
}

static void signalled(int number)
{
    (void)number;
    num_signals++;
}

static void each_opcode_has_one_taker(void)
{
    pw_kernel_mailbox *mailbox = pw_kernel_mailbox_create(2);
    for (uint32_t i = 0; i < UNIMEM_OPCODES; i++) {
        assert(pw_kernel_mailbox_arrived(mailbox, 1, OPCODE(i, 9), 50) == 0);
        assert(pw_kernel_mailbox_register(mailbox, i, called, &num_calls) == PW_OK);
        assert(pw_kernel_mailbox_register(mailbox, i, called, NULL) == PW_ERR_FULL);
        assert(pw_kernel_mailbox_act(mailbox, 'r', i, 0) == PW_ERR_FULL);
        assert(pw_kernel_mailbox_arrived(mailbox, 1, OPCODE(i, 9), 50) == 1);
        assert(last_value == OPCODE(i, 9) && num_calls == (int)i + 1);
        assert(pw_kernel_mailbox_unregister(mailbox, i) == PW_OK);
        assert(pw_kernel_mailbox_unregister(mailbox, i) == PW_ERR_INVALID);
    }
    assert(pw_kernel_mailbox_register(mailbox, 16, called, NULL) == PW_ERR_INVALID);
    assert(pw_kernel_mailbox_act(mailbox, 'x', 1, 0) == PW_ERR_INVALID);
    assert(pw_kernel_mailbox_act(mailbox, 's', 1, 0) == PW_ERR_INVALID);
    assert(pw_kernel_mailbox_act(mailbox, 'e', 1, -1) == PW_ERR_INVALID);
    assert(pw_kernel_mailbox_act(mailbox, 'u', 1, 0) == PW_ERR_INVALID);
    assert(pw_kernel_mailbox_device(mailbox, 2) == PW_ERR_INVALID);
    pw_kernel_mailbox_destroy(mailbox);
}

static int is_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    int polled = poll(&one, 1, 0);
    struct timeval none = {0, 0};
    assert(select(fd + 1, &set, NULL, NULL, &none) == polled);
    int all = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    assert(epoll_ctl(all, EPOLL_CTL_ADD, fd, &event) == 0);
    assert(epoll_wait(all, &event, 1, 0) == polled);
    close(all);
    return polled;
}

static void device_is_a_file_descriptor(void)
{
    pw_kernel_mailbox *mailbox = pw_kernel_mailbox_create(3);
    uint64_t value;
    int fd = pw_kernel_mailbox_device(mailbox, 1);
    assert(fd >= 0 && pw_kernel_mailbox_device(mailbox, 1) == fd && !is_readable(fd));
    assert(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    assert(read(fd, &value, sizeof value) < 0 && errno == EAGAIN);
    assert(pw_kernel_mailbox_act(mailbox, 'r', 3, 0) == PW_OK);
    /* More than the socket takes: they wait, and stay in order. */
    for (uint64_t i = 0; i < 5000; i++)
        assert(pw_kernel_mailbox_arrived(mailbox, 1, OPCODE(3, i), 10) == 1);
    assert(pw_kernel_mailbox_arrived(mailbox, 2, OPCODE(3, 1), 10) == 1); /* another device's */
    uint32_t node;
    for (uint64_t i = 0; i < 5000; i++) {
        if (!is_readable(fd)) assert(pw_kernel_mailbox_written(mailbox, &node, &value) == 0);
        assert(is_readable(fd) && read(fd, &value, sizeof value) == 8 && value == OPCODE(3, i));
    }
    assert(!is_readable(fd));
    value = OPCODE(5, 55);
    assert(write(fd, &value, sizeof value) == 8);
    value = 0;
    assert(pw_kernel_mailbox_written(mailbox, &node, &value) == 1);
    assert(node == 1 && value == OPCODE(5, 55));
    assert(pw_kernel_mailbox_written(mailbox, &node, &value) == 0);
    assert(pw_kernel_mailbox_act(mailbox, 'u', 3, 0) == PW_OK);
    assert(pw_kernel_mailbox_arrived(mailbox, 1, OPCODE(3, 1), 10) == 0);
    pw_kernel_mailbox_destroy(mailbox);
}

static void signal_and_eventfd_tell_of_a_message(void)
{
    pw_kernel_mailbox *mailbox = pw_kernel_mailbox_create(2);
    int event = eventfd(0, EFD_NONBLOCK);
    uint64_t value;
    signal(SIGUSR1, signalled);
    assert(pw_kernel_mailbox_act(mailbox, 's', 1, SIGUSR1) == PW_OK);
    assert(pw_kernel_mailbox_act(mailbox, 'e', 2, event) == PW_OK);
    assert(pw_kernel_mailbox_arrived(mailbox, 0, OPCODE(1, 7), 10) == 1 && num_signals == 1);
    assert(read(event, &value, sizeof value) < 0 && errno == EAGAIN);
    assert(pw_kernel_mailbox_arrived(mailbox, 0, OPCODE(2, 8), 20) == 1 && num_signals == 1);
    assert(pw_kernel_mailbox_arrived(mailbox, 0, OPCODE(2, 9), 30) == 1);
    assert(read(event, &value, sizeof value) == 8 && value == 2);
    int fd = pw_kernel_mailbox_device(mailbox, 0);
    pw_kernel_message message;
    assert(read(fd, &value, sizeof value) == 8 && value == OPCODE(1, 7));
    assert(read(fd, &message, sizeof message) == 16); /* who asks for more gets the time */
    assert(message.value == OPCODE(2, 8) && message.time_ns == 20);
    close(event);
    pw_kernel_mailbox_destroy(mailbox);
}

int main(void)
{
    each_opcode_has_one_taker();
    device_is_a_file_descriptor();
    signal_and_eventfd_tell_of_a_message();
    return 0;
}
