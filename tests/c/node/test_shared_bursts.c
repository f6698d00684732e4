/* Bursts between processes through shared memory: forked peers that send, fall behind, are killed
 * or write nonsense. Without MPI and Python. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/wires/bell.h"
#include "node/wires/shared_bursts.h"
#include "tests/c/node/bursts.h"

#define BURSTS 1000
#define NODES_MAX 4
#define SHORT_BYTES 240
#define ROUNDS 100000        /* of a burst there and one back */
#define LIMIT_NS 20000000000 /* of a rest: one ring that is lost fails the test */

/* Each node writes its own once for each other node: facts, then whom it has met. */
enum { FACTS, HAS_MET, STEPS };
typedef struct {
    int pipe[STEPS][NODES_MAX][2];
} exchange;

static void tell(const exchange *way, int step, uint32_t num_nodes, uint32_t node, const void *data,
                 size_t num_bytes)
{
    for (uint32_t peer = 0; peer < num_nodes; peer++) {
        uint8_t text[256] = {(uint8_t)node};
        memcpy(text + 1, data, num_bytes);
        if (peer != node) assert(write(way->pipe[step][peer][1], text, sizeof text) == sizeof text);
    }
}

static uint32_t hear_one(const exchange *way, int step, uint32_t node, void *data, size_t num_bytes)
{
    uint8_t text[256];
    assert(read(way->pipe[step][node][0], text, sizeof text) == sizeof text);
    memcpy(data, text + 1, num_bytes);
    return text[0];
}

static pw_shared_bursts *join(const exchange *way, uint32_t node, uint32_t num_nodes)
{
    pw_shared_bursts *shared;
    pw_segment_facts facts, theirs;
    uint8_t is_mutual[NODES_MAX] = {0}, word = 1;
    assert(pw_shared_create(node, num_nodes, &shared, &facts) == PW_OK);
    tell(way, FACTS, num_nodes, node, &facts, sizeof facts);
    for (uint32_t i = 1; i < num_nodes; i++) {
        uint32_t peer = hear_one(way, FACTS, node, &theirs, sizeof theirs);
        assert(pw_shared_meet(shared, peer, &theirs) == 1);
        assert(pw_shared_meet(shared, peer, &theirs) == PW_ERR_INVALID); /* once is enough */
    }
    tell(way, HAS_MET, num_nodes, node, &word, 1);
    for (uint32_t i = 1; i < num_nodes; i++)
        is_mutual[hear_one(way, HAS_MET, node, &word, 1)] = word;
    assert(pw_shared_agree(shared, is_mutual) == num_nodes - 1);
    assert(fcntl(facts.fd, F_GETFD) == -1 && errno == EBADF);
    return shared;
}

static void open_exchange(exchange *way)
{
    for (uint32_t i = 0; i < STEPS * NODES_MAX; i++)
        assert(pipe(way->pipe[i / NODES_MAX][i % NODES_MAX]) == 0);
}

static void close_exchange(exchange *way)
{
    for (uint32_t i = 0; i < STEPS * NODES_MAX; i++)
        for (int end = 0; end < 2; end++) close(way->pipe[i / NODES_MAX][i % NODES_MAX][end]);
}

static uint32_t bytes_of(uint32_t idx)
{
    static const uint32_t num_bytes[] = {8, SHORT_BYTES, SHORT_BYTES + 8, 5000, PW_BURST_BYTES};
    return num_bytes[(idx * 2654435761u >> 8) % 5];
}

typedef struct {
    uint8_t *free[64];
    uint32_t num_free, num_made;
} pool;

static uint8_t *take_buffer(pool *pool, pw_shared_bursts *shared)
{
    if (pool->num_free) return pool->free[--pool->num_free];
    if (pool->num_made == 64) return NULL;
    /* Every fourth one is not of the segment. */
    return pool->num_made++ % 4 ? pw_shared_allocate(shared, PW_BURST_BYTES)
                                : malloc(PW_BURST_BYTES);
}

/* Sends every peer its bursts and takes those of all the others. */
static void exchange_all(pw_shared_bursts *shared, uint32_t node, uint32_t num_nodes)
{
    pool own = {0};
    uint32_t num_sent[NODES_MAX] = {0}, num_here[NODES_MAX] = {0}, num_open = 2 * (num_nodes - 1);
    while (num_open || pw_shared_num_pending(shared)) {
        bool is_free, is_busy = false;
        for (uint32_t peer = 0; peer < num_nodes; peer++) {
            if (peer == node || num_sent[peer] == BURSTS) continue;
            uint8_t *data = take_buffer(&own, shared);
            if (!data) break;
            fill_burst(data, node, num_sent[peer], bytes_of(num_sent[peer]));
            assert(pw_shared_send(shared, peer, data, bytes_of(num_sent[peer]), &is_free) == PW_OK);
            if (is_free) own.free[own.num_free++] = data;
            num_open -= ++num_sent[peer] == BURSTS;
            is_busy = true;
        }
        pw_wire_burst burst;
        while (pw_shared_poll(shared, &burst) == 1) {
            check_burst(&burst, num_here[burst.source], bytes_of(num_here[burst.source]));
            pw_shared_taken(shared, &burst);
            num_open -= ++num_here[burst.source] == BURSTS;
            is_busy = true;
        }
        for (uint8_t *data; (data = pw_shared_sent(shared));) own.free[own.num_free++] = data;
        if (!is_busy) sched_yield();
    }
    assert(own.num_free == own.num_made);
}

static pid_t start(void (*run)(const exchange *, uint32_t), const exchange *way, uint32_t node)
{
    pid_t child = fork();
    assert(child >= 0);
    if (child) return child;
    run(way, node);
    _exit(0);
}

static void end(pid_t child, int status)
{
    int found;
    assert(waitpid(child, &found, 0) == child && found == status);
}

static void exchange_in_child(const exchange *way, uint32_t node)
{
    pw_shared_bursts *shared = join(way, node, NODES_MAX);
    exchange_all(shared, node, NODES_MAX);
    pw_shared_destroy(shared);
}

static void all_exchange_with_all(void)
{
    exchange way;
    pid_t child[NODES_MAX];
    open_exchange(&way);
    for (uint32_t node = 0; node < NODES_MAX; node++)
        child[node] = start(exchange_in_child, &way, node);
    for (uint32_t node = 0; node < NODES_MAX; node++) end(child[node], 0);
    close_exchange(&way);
}

static void send_and_be_killed(const exchange *way, uint32_t node)
{
    pw_shared_bursts *shared = join(way, node, 2);
    bool is_free;
    for (uint32_t idx = 0; idx < 10; idx++) {
        uint8_t *data = pw_shared_allocate(shared, PW_BURST_BYTES);
        fill_burst(data, node, idx, bytes_of(idx));
        assert(pw_shared_send(shared, 0, data, bytes_of(idx), &is_free) == PW_OK);
    }
    raise(SIGKILL);
}

static void bursts_of_a_killed_peer_can_be_read(void)
{
    exchange way;
    pw_wire_burst burst;
    uint8_t data[4096] = {0};
    bool is_free;
    open_exchange(&way);
    pid_t child = start(send_and_be_killed, &way, 1);
    pw_shared_bursts *shared = join(&way, 0, 2);
    end(child, SIGKILL);
    for (uint32_t idx = 0; idx < 10; idx++) {
        assert(pw_shared_poll(shared, &burst) == 1);
        check_burst(&burst, idx, bytes_of(idx));
        pw_shared_taken(shared, &burst);
    }
    assert(pw_shared_poll(shared, &burst) == 0);
    /* Nobody reads: what does not fit waits, and is given up at the end. */
    for (uint32_t i = 0; i < 100; i++) {
        assert(pw_shared_send(shared, 1, data, sizeof data, &is_free) == PW_OK);
        assert(is_free == (i < PW_SHARED_SLOTS));
    }
    assert(pw_shared_num_pending(shared) == 100 - PW_SHARED_SLOTS && !pw_shared_sent(shared));
    pw_shared_destroy(shared);
    close_exchange(&way);
}

static uint32_t nonsense[2]; /* length and offset */

static void write_nonsense(const exchange *way, uint32_t node)
{
    pw_segment_facts mine, theirs;
    pw_segment segment;
    pw_shared_bursts *shared;
    uint8_t word = 1;
    const size_t ring_bytes = (size_t)PW_SHARED_SLOTS * 256;
    assert(pw_shared_create(node, 2, &shared, &mine) == PW_OK);
    tell(way, FACTS, 2, node, &mine, sizeof mine);
    hear_one(way, FACTS, node, &theirs, sizeof theirs);
    assert(pw_segment_attach(&theirs, &mine, 4096 + 2 * ring_bytes, &segment) == PW_OK);
    tell(way, HAS_MET, 2, node, &word, 1);
    /* The ring of node 1 is behind that of node 0; its first slot is the second. */
    uint8_t *slot = segment.base + 4096 + ring_bytes + 256;
    memcpy(slot + 8, nonsense, sizeof nonsense);
    slot[0] = 1;
    segment.base[128] = 1 << 1; /* the greeting */
    pause();
}

static void nonsense_in_a_slot_is_refused(uint32_t num_bytes, uint32_t offset)
{
    exchange way;
    pw_wire_burst burst;
    int code = 0;
    nonsense[0] = num_bytes;
    nonsense[1] = offset;
    open_exchange(&way);
    pid_t child = start(write_nonsense, &way, 1);
    pw_shared_bursts *shared = join(&way, 0, 2);
    while (!code) code = pw_shared_poll(shared, &burst);
    assert(code == PW_ERR_MALFORMED);
    kill(child, SIGKILL);
    end(child, SIGKILL);
    pw_shared_destroy(shared);
    close_exchange(&way);
}

static void send_word(pw_shared_bursts *shared, uint32_t peer, uint32_t word)
{
    uint8_t data[8] = {0};
    bool is_free;
    memcpy(data, &word, sizeof word);
    assert(pw_shared_send(shared, peer, data, sizeof data, &is_free) == PW_OK && is_free);
}

/* As a node waits: look, announce, look again, rest. */
static uint32_t receive_word_resting(pw_shared_bursts *shared)
{
    pw_wire_burst burst;
    pw_wire_rest rest;
    uint32_t word;
    bool is_announced = false;
    int code;
    while ((code = pw_shared_poll(shared, &burst)) == 0) {
        assert(pw_shared_rest(shared, &rest) && rest.calls == PW_BELL_ARRIVAL);
        if (is_announced) {
            const int64_t begun_ns = pw_clock_wall_ns();
            pw_bell_wait(rest.bell, rest.calls, LIMIT_NS);
            assert(pw_clock_wall_ns() - begun_ns < LIMIT_NS);
        } else {
            pw_bell_announce(rest.bell, rest.calls);
        }
        is_announced = !is_announced;
    }
    assert(code == 1);
    memcpy(&word, burst.data, sizeof word);
    pw_shared_taken(shared, &burst);
    return word;
}

static void echo_resting(const exchange *way, uint32_t node)
{
    alarm(60);
    pw_shared_bursts *shared = join(way, node, 2);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert(receive_word_resting(shared) == round);
        send_word(shared, 0, round);
    }
    pw_shared_destroy(shared);
}

static void no_ring_is_lost(void)
{
    exchange way;
    open_exchange(&way);
    pid_t child = start(echo_resting, &way, 1);
    pw_shared_bursts *shared = join(&way, 0, 2);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        send_word(shared, 1, round);
        assert(receive_word_resting(shared) == round);
    }
    end(child, 0);
    pw_shared_destroy(shared);
    close_exchange(&way);
}

/* The peer takes one burst of a full ring, and rests until the next one comes. */
static void take_and_rest(const exchange *way, uint32_t node)
{
    pw_shared_bursts *shared = join(way, node, 2);
    pw_wire_burst burst;
    pw_wire_rest rest;
    uint8_t word;
    hear_one(way, HAS_MET, node, &word, 1); /* the ring is full, and the node about to rest */
    assert(pw_shared_poll(shared, &burst) == 1);
    pw_shared_taken(shared, &burst);
    assert(pw_shared_rest(shared, &rest));
    pw_bell_announce(rest.bell, rest.calls);
    tell(way, FACTS, 2, node, &word, 1);
    while (pw_bell_is_set(rest.bell, PW_BELL_ARRIVAL))
        pw_bell_wait(rest.bell, rest.calls, LIMIT_NS);
    pw_shared_destroy(shared);
}

static void room_rings(void)
{
    exchange way;
    pw_wire_rest rest;
    uint8_t word = 0, data[8] = {0};
    bool is_free;
    open_exchange(&way);
    pid_t child = start(take_and_rest, &way, 1);
    pw_shared_bursts *shared = join(&way, 0, 2);
    for (uint32_t i = 0; i <= PW_SHARED_SLOTS; i++)
        assert(pw_shared_send(shared, 1, data, sizeof data, &is_free) == PW_OK);
    assert(pw_shared_is_waiting(shared) && pw_shared_rest(shared, &rest));
    assert(rest.calls == (PW_BELL_ARRIVAL | PW_BELL_ROOM) && rest.num_near == 1);
    pw_bell_announce(rest.bell, PW_BELL_ROOM);
    tell(&way, HAS_MET, 2, 0, &word, 1);
    pw_bell_wait(rest.bell, PW_BELL_ROOM, LIMIT_NS);
    assert(!pw_bell_is_set(rest.bell, PW_BELL_ROOM));
    assert(hear_one(&way, FACTS, 0, &word, 1) == 1);
    assert(pw_shared_sent(shared) == data && !pw_shared_is_waiting(shared)); /* and rings */
    end(child, 0);
    pw_shared_destroy(shared);
    close_exchange(&way);
}

static void nobody_rests_in_a_forked_child(void)
{
    pw_shared_bursts *shared;
    pw_segment_facts facts;
    pw_wire_rest rest;
    assert(pw_shared_create(0, 1, &shared, &facts) == PW_OK);
    assert(pw_shared_rest(shared, &rest) && rest.num_near == 0);
    pid_t child = fork();
    if (!child) _exit(pw_shared_rest(shared, &rest));
    end(child, 0);
    pw_bell_announce(rest.bell, rest.calls);
    pw_bell_wait(rest.bell, rest.calls, 1000); /* nobody rings: the limit ends it */
    pw_bell_withdraw(rest.bell);
    assert(!pw_bell_is_set(rest.bell, rest.calls));
    pw_shared_destroy(shared);
}

static void strangers_do_not_meet(void)
{
    pw_shared_bursts *shared, *other;
    pw_segment_facts facts, theirs, wrong;
    assert(pw_shared_create(0, 0, &shared, &facts) == PW_ERR_INVALID);
    assert(pw_shared_create(2, 2, &shared, &facts) == PW_ERR_INVALID);
    assert(pw_shared_create(0, PW_SHARED_NODES_MAX + 1, &shared, &facts) == PW_ERR_INVALID);
    assert(pw_shared_create(0, 2, &shared, &facts) == PW_OK);
    assert(pw_shared_create(1, 2, &other, &theirs) == PW_OK);
    assert(pw_shared_meet(shared, 0, &theirs) == PW_ERR_INVALID);
    assert(pw_shared_meet(shared, 2, &theirs) == PW_ERR_INVALID);
    wrong = theirs, wrong.boot_id[0] ^= 1; /* another host */
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == EXDEV);
    wrong = theirs, wrong.pid_namespace++; /* another container */
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == EXDEV);
    wrong = theirs, wrong.nonce[1]++; /* the same numbers, another file */
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == ENXIO);
    assert(pw_shared_meet(shared, 1, &facts) == PW_ERR_MALFORMED); /* another node's */
    wrong = theirs, wrong.inode++;
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == ENXIO);
    wrong = theirs, wrong.fd = 1000;
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == ENOENT);
    wrong = (pw_segment_facts){0}; /* has none */
    assert(pw_shared_meet(shared, 1, &wrong) == 0 && errno == EXDEV);
    assert(!pw_shared_is_near(shared, 1));
    assert(pw_shared_meet(shared, 1, &theirs) == 1);
    const uint8_t is_mutual[2] = {0, 0}; /* but the other one could not */
    assert(pw_shared_agree(shared, is_mutual) == 0 && !pw_shared_is_near(shared, 1));
    pw_shared_destroy(other);
    pw_shared_destroy(shared);
    pw_shared_destroy(NULL);
}

/* Peers one by one: a short burst tells who its sender is before that is met in turn. */
/* One place for the promises of each to each, which both see. */
static void both_see_the_place_of_a_promise(pw_shared_bursts *node0, pw_shared_bursts *node1)
{
    for (uint32_t giver = 0; giver < 2; giver++) {
        pw_promise_place *place = pw_shared_promises(node0, giver, 1 - giver);
        pw_promise_place *same = pw_shared_promises(node1, giver, 1 - giver);
        assert(place && same && place != same && place->state == 0);
        place->state = 7 + giver;
        memset(same->taken, 1, sizeof same->taken);
        assert(same->state == 7 + giver && place->taken[sizeof place->taken - 1] == 1);
    }
    assert(!pw_shared_promises(node0, 0, 0));
}

static void one_meets_after_the_other(void)
{
    pw_shared_bursts *shared, *other;
    pw_segment_facts facts, theirs;
    pw_wire_burst burst;
    static uint8_t data[SHORT_BYTES + 8];
    bool is_free;
    assert(pw_shared_create(0, 2, &shared, &facts) == PW_OK);
    assert(pw_shared_create(1, 2, &other, &theirs) == PW_OK);
    assert(pw_shared_send(other, 0, data, 8, &is_free) == PW_ERR_INVALID);
    assert(pw_shared_meet(other, 0, &facts) == 1);
    memset(data, 7, SHORT_BYTES);
    assert(pw_shared_send(other, 0, data, SHORT_BYTES, &is_free) == PW_OK && is_free);
    assert(pw_shared_poll(shared, &burst) == 1 && burst.source == 1);
    assert(burst.num_bytes == SHORT_BYTES && memcmp(burst.data, data, SHORT_BYTES) == 0);
    pw_shared_taken(shared, &burst);
    assert(pw_shared_promises(other, 1, 0) && !pw_shared_promises(shared, 1, 0));
    assert(pw_shared_meet(shared, 1, &theirs) == 1);
    both_see_the_place_of_a_promise(shared, other);
    /* What waits when the two part comes back; what is in a slot can still be read. */
    for (uint32_t i = 0; i <= PW_SHARED_SLOTS; i++)
        assert(pw_shared_send(shared, 1, data, 8, &is_free) == PW_OK &&
               is_free == (i < PW_SHARED_SLOTS));
    assert(pw_shared_is_waiting(shared));
    pw_shared_part(shared, 1);
    assert(!pw_shared_is_waiting(shared) && !pw_shared_is_near(shared, 1));
    assert(pw_shared_sent(shared) == data && !pw_shared_num_pending(shared));
    assert(pw_shared_send(shared, 1, data, 8, &is_free) == PW_ERR_INVALID);
    assert(pw_shared_poll(other, &burst) == 1 && burst.num_bytes == 8);
    /* A long burst of a sender that is not met cannot be read. */
    assert(pw_shared_send(other, 0, data, SHORT_BYTES + 8, &is_free) == PW_OK);
    assert(pw_shared_poll(shared, &burst) == PW_ERR_MALFORMED);
    pw_shared_destroy(other);
    pw_shared_destroy(shared);
}

static void a_full_segment_is_not_the_end(void)
{
    pw_shared_bursts *shared;
    pw_segment_facts facts;
    size_t num_buffers = 0;
    assert(pw_shared_create(0, 1, &shared, &facts) == PW_OK);
    for (uint8_t *data; (data = pw_shared_allocate(shared, PW_BURST_BYTES)); num_buffers++) {
        assert((uintptr_t)data % 64 == 0);
        if (num_buffers % 500 == 0) memset(data, 1, PW_BURST_BYTES);
    }
    assert(num_buffers > 1500);
    pw_shared_destroy(shared);
    struct rlimit small = {1 << 20, RLIM_INFINITY};
    assert(setrlimit(RLIMIT_FSIZE, &small) == 0); /* without a check SIGXFSZ would end us */
    assert(pw_shared_create(0, 1, &shared, &facts) == PW_ERR_HOST && errno == EFBIG);
}

/* Its maker could truncate it later: reading there would end this process. */
static void a_segment_that_can_shrink_is_not_mapped(void)
{
    pw_segment sealed, found;
    pw_segment_facts facts, mine;
    struct stat file;
    assert(pw_segment_create(1 << 20, 1 << 20, &sealed, &facts) == PW_OK);
    assert(pw_segment_find_facts(&mine) == PW_OK);
    assert(pw_segment_attach(&facts, &mine, 4096, &found) == PW_OK);
    pw_segment_detach(&found);

    int fd = memfd_create("unsealed", MFD_CLOEXEC);
    assert(fd >= 0 && ftruncate(fd, 1 << 20) == 0 && fstat(fd, &file) == 0);
    assert(pwrite(fd, facts.nonce, sizeof facts.nonce, 0) == sizeof facts.nonce);
    close(facts.fd);
    facts.fd = fd;
    facts.device = file.st_dev;
    facts.inode = file.st_ino;
    assert(pw_segment_attach(&facts, &mine, 4096, &found) == PW_ERR_HOST && errno == EPERM);
    close(fd);
    pw_segment_detach(&sealed);
}

int main(void)
{
    alarm(60); /* not for ever, should one wait for another in vain */
    strangers_do_not_meet();
    all_exchange_with_all();
    bursts_of_a_killed_peer_can_be_read();
    nonsense_in_a_slot_is_refused(PW_BURST_BYTES + 1, 16384);
    nonsense_in_a_slot_is_refused(SHORT_BYTES + 1, 0);
    nonsense_in_a_slot_is_refused(100, UINT32_MAX - 8);
    nonsense_in_a_slot_is_refused(0, 16384);
    one_meets_after_the_other();
    no_ring_is_lost();
    room_rings();
    nobody_rests_in_a_forked_child();
    a_full_segment_is_not_the_end();
    a_segment_that_can_shrink_is_not_mapped();
    return 0;
}
