/* Bad ends of a wire over libfabric: killed peers, strangers, impostors, forked children, addresses
 * that are none, a library that is not libfabric. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "wire_processes.h"

static pw_wire_mode mode;

/* Sends small bursts until the wire refuses or the time is over; the code of the last one. */
static int send_until_refused(pw_wire *wire, uint32_t peer)
{
    const int64_t end_ns = pw_clock_wall_ns() + 20 * INT64_C(1000000000);
    static uint8_t data[4096];
    pw_wire_burst burst;
    int code = PW_OK;
    while (!code && pw_clock_wall_ns() < end_ns) {
        bool is_free;
        while (wire->ops->num_pending(wire) > 100 && pw_clock_wall_ns() < end_ns) {
            assert(wire->ops->poll(wire, &burst) == 0); /* silent all the same */
            while (wire->ops->sent(wire)) continue;
        }
        code = wire->ops->send(wire, peer, data, sizeof data, &is_free);
        assert(wire->ops->poll(wire, &burst) == 0);
        while (wire->ops->sent(wire)) continue;
    }
    return code;
}

/* Node 1 is killed; node 2 and node 0 go on. */
static void outlive(const exchange *way, uint32_t node)
{
    const uint32_t others[] = {node == 0 ? 1 : 0, node == 2 ? 1 : 2}, survivor = 2 - node;
    pw_wire *wire = open_wire(node, 3, mode);
    pw_wire_fabric_counters found;
    meet_all(way, wire);
    exchange_bursts(wire, others, 2, 100);
    if (node == 1) {
        tell(way, 0, 1, NULL);
        poll_until_told(wire, way, wire->node);
        raise(SIGKILL);
    }
    if (node == 0) {
        assert(hear(way, 0).source == 1);
        tell(way, 1, 0, NULL);
        assert(hear(way, 0).source == UINT32_MAX); /* the test has seen it dead */
        if (mode == PW_WIRE_TCP) {
            assert(send_until_refused(wire, 1) == PW_ERR_HOST);
            assert(strstr(pw_wire_fabric_reason(wire), "node 1 cannot be reached"));
            pw_wire_fabric_read_counters(wire, &found);
            assert(found.num_lost == 1);
        } else {
            pool own = {.num_free = 0};
            for (uint32_t idx = 0; idx < 60; idx++) assert(send_one(&own, wire, 1, idx));
        }
        tell(way, 2, 0, NULL);
    } else {
        assert(hear(way, 2).source == 0);
    }
    if (mode == PW_WIRE_TCP) exchange_bursts(wire, &survivor, 1, 100);
    const int64_t start_ns = pw_clock_wall_ns();
    wire->ops->close(wire);
    assert(pw_clock_wall_ns() - start_ns < 5 * INT64_C(1000000000)); /* waits for one second */
}

static void a_killed_peer_stops_nobody_else(void)
{
    exchange way;
    pid_t child[3];
    exchange_open(&way);
    for (uint32_t node = 0; node < 3; node++) child[node] = start(outlive, &way, node);
    end(child[1], SIGKILL);
    tell(&way, 0, UINT32_MAX, NULL);
    end(child[0], 0);
    end(child[2], 0);
    exchange_close(&way);
}

/* Process 2 says that it is node 1, which is somebody else. */
static void impersonate(const exchange *way, uint32_t number)
{
    pool own = {.num_free = 0};
    pw_wire_fabric_counters found;
    pw_wire *wire = open_wire(number == 2 ? 1 : number, 2, mode);
    if (number) {
        const record from = hear(way, number);
        must_connect(wire, &from.address);
    }
    if (number == 0) {
        tell(way, 1, 0, pw_wire_fabric_address(wire));
        receive_one(wire, 1, 0);
        tell(way, 2, 0, pw_wire_fabric_address(wire));
        do {
            pw_wire_burst burst;
            assert(wire->ops->poll(wire, &burst) == 0);
            pw_wire_fabric_read_counters(wire, &found);
        } while (!found.num_hellos_refused);
        const record impostor = hear(way, 0);
        uint32_t node = 77;
        assert(pw_wire_fabric_connect(wire, &impostor.address, &node) == PW_ERR_INVALID);
        assert(node == 77 && strstr(pw_wire_fabric_reason(wire), "say that they are node 1"));
        tell(way, 1, 0, NULL);
        tell(way, 2, 0, NULL);
        receive_one(wire, 1, 1);
    } else if (number == 1) {
        assert(send_one(&own, wire, 0, 0));
        poll_until_told(wire, way, number);
        assert(send_one(&own, wire, 0, 1));
    } else {
        assert(send_one(&own, wire, 0, 0));
        tell(way, 0, 2, pw_wire_fabric_address(wire));
        poll_until_told(wire, way, number);
    }
    wire->ops->close(wire);
}

/* Something else on the network finds the port. */
static void send_garbage(const pw_wire_address *address)
{
    uint8_t garbage[2048];
    struct sockaddr_in to;
    memcpy(&to, address->tcp_name, sizeof to);
    memset(garbage, 0xa5, sizeof garbage);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(to.sin_family == AF_INET && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    assert(write(fd, garbage, sizeof garbage) == sizeof garbage);
    close(fd);
}

static void withstand_garbage(const exchange *way, uint32_t node)
{
    const uint32_t peer = 1 - node;
    pw_wire *wire = open_wire(node, 2, PW_WIRE_TCP);
    tell(way, peer, node, pw_wire_fabric_address(wire));
    const record from = hear(way, node);
    send_garbage(&from.address);
    must_connect(wire, &from.address);
    exchange_bursts(wire, &peer, 1, 100);
    send_garbage(&from.address);
    exchange_bursts(wire, &peer, 1, 100);
    tell(way, peer, node, NULL);
    poll_until_told(wire, way, wire->node);
    wire->ops->close(wire);
}

/* A message with the key of an earlier run is dropped. */
static void send_with_a_wrong_key(const exchange *way, uint32_t node)
{
    pool own = {.num_free = 0};
    pw_wire *wire = open_wire(node, 2, PW_WIRE_TCP);
    if (node == 0) {
        pw_wire_fabric_counters found = {0};
        pw_wire_address wrong = *pw_wire_fabric_address(wire);
        wrong.segment.nonce[1] ^= 1;
        tell(way, 1, 0, &wrong);
        while (!found.num_dropped) {
            pw_wire_burst burst;
            assert(wire->ops->poll(wire, &burst) == 0);
            pw_wire_fabric_read_counters(wire, &found);
        }
        assert(!found.num_messages);
        tell(way, 1, 0, NULL);
    } else {
        const record from = hear(way, 1);
        must_connect(wire, &from.address);
        assert(send_one(&own, wire, 0, 0));
        poll_until_told(wire, way, wire->node);
    }
    wire->ops->close(wire);
}

/* A child of fork neither sends nor receives nor harms its parent. */
static void fork_in_between(const exchange *way, uint32_t node)
{
    const uint32_t peer = 1 - node;
    uint8_t data[8] = {0};
    pw_wire_burst burst;
    bool is_free = true;
    int status;
    pw_wire *wire = open_wire(node, 2, mode);
    meet_all(way, wire);
    exchange_bursts(wire, &peer, 1, 100);
    const pid_t child = fork();
    if (!child) {
        assert(wire->ops->send(wire, peer, data, sizeof data, &is_free) == PW_ERR_INVALID);
        assert(wire->ops->poll(wire, &burst) == PW_ERR_INVALID && !wire->ops->sent(wire));
        assert(strstr(pw_wire_fabric_reason(wire), "forked"));
        wire->ops->close(wire);
        _exit(0);
    }
    assert(waitpid(child, &status, 0) == child && status == 0);
    exchange_bursts(wire, &peer, 1, 100);
    tell(way, peer, node, NULL);
    poll_until_told(wire, way, wire->node);
    wire->ops->close(wire);
}

static void refuse_wrong_addresses(const exchange *way, uint32_t node)
{
    uint8_t data[8] = {0};
    bool is_free = true;
    uint32_t found = 77;
    pw_wire *wire = open_wire(node, 2, PW_WIRE_AUTO);
    const pw_wire_address mine = *pw_wire_fabric_address(wire);
    pw_wire_address wrong;
    (void)way;
    wrong = mine, wrong.magic++;
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    assert(strstr(pw_wire_fabric_reason(wire), "same pagewire"));
    wrong = mine, wrong.version++;
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    wrong = mine, wrong.node = 2;
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    assert(strstr(pw_wire_fabric_reason(wire), "is node 2; this run has nodes 0 to 1"));
    wrong = mine, wrong.tcp_name_bytes = PW_TCP_NAME_BYTES + 1;
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    wrong = mine, wrong.shm_name_bytes = 2, wrong.shm_name[1] = 'x';
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    wrong = mine, memset(wrong.segment.boot_id, 'x', sizeof wrong.segment.boot_id);
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_MALFORMED);
    wrong = mine, wrong.segment.nonce[1]++; /* another process with this number */
    assert(pw_wire_fabric_connect(wire, &wrong, &found) == PW_ERR_INVALID && found == 77);
    assert(pw_wire_fabric_connect(wire, &mine, &found) == PW_OK && found == node);
    assert(wire->ops->send(wire, 1, data, sizeof data, &is_free) == PW_ERR_INVALID);
    assert(strstr(pw_wire_fabric_reason(wire), "address of node 1 is not known") && is_free);
    assert(wire->ops->send(wire, 0, data, sizeof data, &is_free) == PW_ERR_INVALID);
    assert(wire->ops->send(wire, 1, data, 0, &is_free) == PW_ERR_INVALID);
    assert(wire->ops->send(wire, 1, data, PW_BURST_BYTES + 1, &is_free) == PW_ERR_INVALID);
    /* Of another host, without tcp: there is no way. */
    wrong = mine, wrong.node = 1, wrong.network_namespace++, wrong.tcp_name_bytes = 0;
    must_connect(wire, &wrong);
    assert(wire->ops->send(wire, 1, data, sizeof data, &is_free) == PW_ERR_HOST);
    assert(strstr(pw_wire_fabric_reason(wire), "node 1 shares no memory with node 0"));
    wire->ops->close(wire);
}

/* A node of another host whose tcp endpoint is bound to the loopback alone. */
static void refuse_an_address_out_of_reach(const exchange *way, uint32_t node)
{
    const struct sockaddr_in loopback = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    uint8_t data[8] = {0};
    bool is_free = true;
    pw_wire *wire = open_wire(node, 2, PW_WIRE_TCP);
    pw_wire_address other = *pw_wire_fabric_address(wire);
    (void)way;
    other.node = 1, other.network_namespace++, other.tcp_name_bytes = sizeof loopback;
    memcpy(other.tcp_name, &loopback, sizeof loopback);
    must_connect(wire, &other);
    assert(wire->ops->send(wire, 1, data, sizeof data, &is_free) == PW_ERR_HOST && is_free);
    assert(strstr(pw_wire_fabric_reason(wire), "node 1 is on another host"));
    wire->ops->close(wire);
}

static void refuse_a_wrong_interface(const exchange *way, uint32_t node)
{
    const pw_wire_fabric_options loopback = {PW_WIRE_TCP, "127.0.0.1"}, wrong = {0, "no-such0"};
    pw_sentence reason;
    pw_wire *wire;
    struct sockaddr_in bound;
    (void)way;
    assert(pw_wire_fabric_create(&libfabric, node, 1, &wrong, &wire, &reason) == PW_ERR_HOST);
    assert(strstr(reason.text, "no network interface no-such0"));
    assert(pw_wire_fabric_create(&libfabric, 1, 1, &loopback, &wire, &reason) == PW_ERR_INVALID);
    assert(pw_wire_fabric_create(&libfabric, 0, 1, &loopback, &wire, &reason) == PW_OK);
    memcpy(&bound, pw_wire_fabric_address(wire)->tcp_name, sizeof bound);
    assert(ntohl(bound.sin_addr.s_addr) == INADDR_LOOPBACK && bound.sin_port);
    wire->ops->close(wire);
}

/* A process of the same id was killed, and left what it shared by the name of the next endpoint. */
static void open_beside_what_a_killed_one_left(const exchange *way, uint32_t node)
{
    char own[64], left[64], command[160];
    uint32_t number = 0;
    (void)way;
    pw_wire *first = open_wire(node, 1, PW_WIRE_SHM);
    do {
        assert(number < 16);
        snprintf(own, sizeof own, "/dev/shm/%d:%u:%u", getpid(), getuid(), number++);
    } while (access(own, F_OK));
    snprintf(left, sizeof left, "/dev/shm/%d:%u:%u", getpid(), getuid(), number);
    snprintf(command, sizeof command, "cp --sparse=always %s %s", own, left);
    assert(!system(command));
    pw_wire *second = open_wire(node, 1, PW_WIRE_SHM);
    second->ops->close(second);
    first->ops->close(first);
    unlink(left);
}

static void find_the_library_that_calls(const exchange *way, uint32_t node)
{
    pw_fabric_library found = {.handle = NULL};
    pw_sentence reason;
    int on_the_stack;
    (void)way, (void)node;
    void *address;
    memcpy(&address, &libfabric.fabric, sizeof address); /* of code inside it */
    assert(pw_fabric_library_find(address, &found, &reason) == PW_OK);
    assert(found.getinfo == libfabric.getinfo && found.version == libfabric.version);
    assert(found.version() >= PW_FABRIC_VERSION);
    found.getinfo = NULL;
    assert(pw_fabric_library_find(stdout, &found, &reason) == PW_ERR_HOST); /* the C library's */
    assert(strstr(reason.text, "no function fi_getinfo") && !found.getinfo);
    assert(pw_fabric_library_find(&on_the_stack, &found, &reason) == PW_ERR_HOST);
    assert(strstr(reason.text, "FI_PROVIDER_PATH"));
}

int main(void)
{
    static const pw_wire_mode modes[] = {PW_WIRE_AUTO, PW_WIRE_SHM, PW_WIRE_TCP};
    load_libfabric();
    run_all(find_the_library_that_calls, 1);
    run_all(open_beside_what_a_killed_one_left, 1);
    run_all(refuse_wrong_addresses, 1);
    run_all(refuse_an_address_out_of_reach, 1);
    run_all(refuse_a_wrong_interface, 1);
    run_all(send_with_a_wrong_key, 2);
    run_all(withstand_garbage, 2);
    for (uint32_t i = 0; i < 3; i++) {
        mode = modes[i];
        a_killed_peer_stops_nobody_else();
        run_all(fork_in_between, 2);
        /* In own shared memory a ring has one writer, whoever that says it is. */
        if (mode != PW_WIRE_AUTO) run_all(impersonate, 3);
    }
    return 0;
}
