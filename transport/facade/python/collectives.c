/* Collectives of arrays, each in one call (collectives.h); other memory, datatypes, operations and
 * roots are left to Python, which exchanges the same messages. */
#include <string.h>

#include "node/clock.h"
#include "transport/facade/collectives.h"
#include "transport/facade/python/arguments.h"

typedef struct {
    pw_channel *channel;
    uint32_t call;
    int64_t began_ns;
} collective;

static bool read_call(PyObject *comm, PyObject *call, collective *out)
{
    out->began_ns = pw_clock_wall_ns();
    out->call = (uint32_t)PyLong_AsLong(call);
    out->channel = pw_python_channel_of(comm, true);
    return out->channel != NULL;
}

static bool read_root(const collective *of, PyObject *object, int32_t *root)
{
    return pw_python_read_int(object, root) && *root >= 0 && *root < of->channel->size;
}

static uint64_t address_of(const pw_python_memory *memory) { return (uintptr_t)memory->buffer.buf; }

/* comm, call. */
PyObject *pw_python_barrier(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of)) Py_RETURN_NOTIMPLEMENTED;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_collective_barrier(pw_python.messaging, of.call, of.began_ns, of.channel, NULL,
                                   of.channel->size, PW_COLLECTIVE_TAG);
    Py_END_ALLOW_THREADS;
    return pw_python_none_or(result);
}

/* comm, call, buf, root. */
PyObject *pw_python_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    pw_python_memory memory;
    int32_t root;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of) || !read_root(&of, args[3], &root) ||
        !pw_python_read_memory(args[2], root != of.channel->rank, &memory))
        Py_RETURN_NOTIMPLEMENTED;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_collective_broadcast(pw_python.messaging, of.call, of.began_ns, of.channel,
                                     address_of(&memory), memory.num_bytes, root, NULL);
    Py_END_ALLOW_THREADS;
    pw_python_release(&memory);
    return pw_python_none_or(result);
}

/* Two arrays, which may be the same. */
typedef struct {
    pw_python_memory sent, received;
    pw_mpi_handle sent_type, datatype;
} arrays;

static bool read_arrays(PyObject *sent, PyObject *received, arrays *out)
{
    if (!pw_python_read_array(sent, false, &out->sent, &out->sent_type)) return false;
    if (pw_python_read_array(received, true, &out->received, &out->datatype)) return true;
    pw_python_release(&out->sent);
    return false;
}

static void release_arrays(arrays *of)
{
    pw_python_release(&of->sent);
    pw_python_release(&of->received);
}

static PyObject *leave_to_python(arrays *of)
{
    release_arrays(of);
    Py_RETURN_NOTIMPLEMENTED;
}

static bool are_alike(const arrays *of)
{
    return of->sent_type == of->datatype && of->sent.num_bytes == of->received.num_bytes;
}

/* comm, call, sendbuf, recvbuf. */
PyObject *pw_python_allgather(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    arrays both;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of) || !read_arrays(args[2], args[3], &both))
        Py_RETURN_NOTIMPLEMENTED;
    const uint64_t block_bytes = both.sent.num_bytes;
    if (block_bytes * (uint64_t)of.channel->size != both.received.num_bytes)
        return leave_to_python(&both);
    Py_BEGIN_ALLOW_THREADS;
    if (block_bytes)
        memmove((uint8_t *)both.received.buffer.buf + (uint64_t)of.channel->rank * block_bytes,
                both.sent.buffer.buf, block_bytes);
    result = pw_collective_allgather(pw_python.messaging, of.call, of.began_ns, of.channel,
                                     address_of(&both.received), block_bytes, NULL);
    Py_END_ALLOW_THREADS;
    release_arrays(&both);
    return pw_python_none_or(result);
}

/* comm, call, sendbuf, recvbuf. A block of half an element is an error, which Python tells. */
PyObject *pw_python_alltoall(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    arrays both;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of) || !read_arrays(args[2], args[3], &both))
        Py_RETURN_NOTIMPLEMENTED;
    const uint64_t num_blocks = (uint64_t)of.channel->size,
                   block_bytes = both.sent.num_bytes / num_blocks;
    if (!are_alike(&both) ||
        both.sent.num_bytes % (num_blocks * (uint64_t)both.sent.buffer.itemsize))
        return leave_to_python(&both);
    Py_BEGIN_ALLOW_THREADS;
    result = pw_collective_alltoall(pw_python.messaging, of.call, of.began_ns, of.channel,
                                    address_of(&both.sent), address_of(&both.received), block_bytes,
                                    NULL, NULL);
    Py_END_ALLOW_THREADS;
    release_arrays(&both);
    return pw_python_none_or(result);
}

/* ---- Gather and Scatter of short blocks, which meet in a tree */

typedef struct {
    collective of;
    pw_python_memory whole, own; /* of the root: all blocks; of each rank: its own */
    bool has_whole, has_own;     /* the root's own may be in its place */
    int32_t root;
    uint64_t block_bytes;
    uint8_t *tree; /* of the rank's subtree, ranks counted on from the root */
} in_tree;

static void release_tree(in_tree *all)
{
    if (all->has_whole) pw_python_release(&all->whole);
    if (all->has_own) pw_python_release(&all->own);
}

/* The tree is of Python's memory, as by the general way: it may fault. */
static bool has_room(in_tree *all)
{
    const uint32_t size = (uint32_t)all->of.channel->size,
                   relative = ((uint32_t)all->of.channel->rank + size - (uint32_t)all->root) % size;
    const uint32_t step = relative & -relative;
    const uint32_t num_ranks = !relative ? size : step < size - relative ? step : size - relative;
    if (!all->block_bytes || all->block_bytes > PW_COLLECTIVE_LONG_BYTES) return false;
    all->tree = PyMem_Malloc(num_ranks * all->block_bytes);
    return all->tree != NULL;
}

/* whole, own: specifications. is_gather: own is sent, whole is received. */
static bool open_tree(in_tree *all, PyObject *whole, PyObject *own, bool is_gather)
{
    const uint64_t size = (uint64_t)all->of.channel->size;
    const bool is_root = all->root == all->of.channel->rank;
    pw_mpi_handle type = 0, own_type = 0;
    if (own == pw_python.in_place) own = Py_None;
    if (is_root) all->has_whole = pw_python_read_array(whole, is_gather, &all->whole, &type);
    if (!is_root || own != Py_None)
        all->has_own = pw_python_read_array(own, !is_gather, &all->own, &own_type);
    if (is_root ? !all->has_whole : !all->has_own) return false;
    all->block_bytes = is_root ? all->whole.num_bytes / size : all->own.num_bytes;
    if (is_root && all->whole.num_bytes % (size * (uint64_t)all->whole.buffer.itemsize))
        return false;
    if (is_root && own != Py_None &&
        (!all->has_own || own_type != type || all->own.num_bytes != all->block_bytes))
        return false;
    return has_room(all);
}

static uint8_t *block_of(const in_tree *all, int64_t rank)
{
    return (uint8_t *)all->whole.buffer.buf + (uint64_t)rank * all->block_bytes;
}

/* The other ranks' blocks, between the root's array and its tree. */
static void move_others(const in_tree *all, bool is_gather)
{
    const int64_t size = all->of.channel->size;
    for (int64_t i = 1; i < size; i++) {
        uint8_t *in_array = block_of(all, (i + all->root) % size),
                *in_memory = all->tree + (uint64_t)i * all->block_bytes;
        memcpy(is_gather ? in_array : in_memory, is_gather ? in_memory : in_array,
               all->block_bytes);
    }
}

static int64_t gather(in_tree *all)
{
    const collective *of = &all->of;
    if (!all->has_whole) memcpy(all->tree, all->own.buffer.buf, all->block_bytes);
    else if (all->has_own) memmove(block_of(all, all->root), all->own.buffer.buf, all->block_bytes);
    const int64_t result =
        pw_collective_gather(pw_python.messaging, of->call, of->began_ns, of->channel,
                             (uintptr_t)all->tree, all->block_bytes, all->root);
    if (result == PW_OK && all->has_whole) move_others(all, true);
    return result;
}

static int64_t scatter(in_tree *all)
{
    const collective *of = &all->of;
    uint64_t num_received = 0;
    if (all->has_whole) move_others(all, false);
    const int64_t result =
        pw_collective_scatter(pw_python.messaging, of->call, of->began_ns, of->channel,
                              (uintptr_t)all->tree, all->block_bytes, all->root, &num_received);
    if (all->has_whole && all->has_own)
        memmove(all->own.buffer.buf, block_of(all, all->root), all->block_bytes);
    else if (!all->has_whole && result == PW_OK)
        memcpy(all->own.buffer.buf, all->tree, num_received);
    return result;
}

/* args: comm, call, ..., root. After an error the NI may still use the tree, which stays. */
static PyObject *through_tree(PyObject *const *args, PyObject *whole, PyObject *own, bool is_gather)
{
    in_tree all = {.tree = NULL};
    int64_t result;
    if (!read_call(args[0], args[1], &all.of) || !read_root(&all.of, args[4], &all.root))
        Py_RETURN_NOTIMPLEMENTED;
    if (!open_tree(&all, whole, own, is_gather)) {
        release_tree(&all);
        Py_RETURN_NOTIMPLEMENTED;
    }
    Py_BEGIN_ALLOW_THREADS;
    result = is_gather ? gather(&all) : scatter(&all);
    Py_END_ALLOW_THREADS;
    if (result == PW_OK) PyMem_Free(all.tree);
    release_tree(&all);
    return pw_python_none_or(result);
}

/* comm, call, sendbuf, recvbuf, root. */
PyObject *pw_python_gather(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    (void)self;
    (void)num_args;
    return through_tree(args, args[3], args[2], true);
}

/* comm, call, sendbuf, recvbuf, root. */
PyObject *pw_python_scatter(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    (void)self;
    (void)num_args;
    return through_tree(args, args[2], args[3], false);
}

/* ---- reductions */

static PyObject *in_place_or(PyObject *sent, PyObject *received)
{
    return sent == Py_None || sent == pw_python.in_place ? received : sent;
}

/* One of MPI's own. */
static bool read_operation(PyObject *op, pw_mpi_handle *out)
{
    static PyObject *name;
    PyObject *handle = pw_python_attribute(op, &name, "handle");
    PyObject *found = handle ? PyDict_GetItemWithError(pw_python.operations, handle) : NULL;
    if (found) *out = (pw_mpi_handle)PyLong_AsUnsignedLongLong(found);
    else PyErr_Clear();
    Py_XDECREF(handle);
    return found != NULL;
}

/* Of what is sent. */
static pw_vectors vectors_of(const pw_python_memory *sent, uint64_t receive_address,
                             pw_mpi_handle datatype, pw_mpi_handle op)
{
    const uint64_t element_bytes = (uint64_t)sent->buffer.itemsize;
    return (pw_vectors){.send_address = address_of(sent),
                        .receive_address = receive_address,
                        .count = sent->num_bytes / element_bytes,
                        .element_bytes = element_bytes,
                        .datatype = datatype,
                        .op = op};
}

/* comm, call, sendbuf, recvbuf, op. */
PyObject *pw_python_allreduce(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    arrays both;
    pw_mpi_handle op;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of) || !read_operation(args[4], &op) ||
        !read_arrays(in_place_or(args[2], args[3]), args[3], &both))
        Py_RETURN_NOTIMPLEMENTED;
    if (!are_alike(&both)) return leave_to_python(&both);
    const pw_vectors it = vectors_of(&both.sent, address_of(&both.received), both.datatype, op);
    Py_BEGIN_ALLOW_THREADS;
    result = pw_collective_allreduce(pw_python.messaging, of.call, of.began_ns, of.channel, it);
    Py_END_ALLOW_THREADS;
    release_arrays(&both);
    return pw_python_none_or(result);
}

static PyObject *reduce(const collective *of, const pw_vectors *vectors, int32_t root)
{
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_collective_reduce(pw_python.messaging, of->call, of->began_ns, of->channel,
                                  *vectors, root);
    Py_END_ALLOW_THREADS;
    return pw_python_none_or(result);
}

static PyObject *reduce_at_root(const collective *of, PyObject *const *args, pw_mpi_handle op,
                                int32_t root)
{
    arrays both;
    if (!read_arrays(in_place_or(args[2], args[3]), args[3], &both)) Py_RETURN_NOTIMPLEMENTED;
    if (!are_alike(&both)) return leave_to_python(&both);
    const pw_vectors it = vectors_of(&both.sent, address_of(&both.received), both.datatype, op);
    PyObject *answer = reduce(of, &it, root);
    release_arrays(&both);
    return answer;
}

static PyObject *reduce_elsewhere(const collective *of, PyObject *sendbuf, pw_mpi_handle op,
                                  int32_t root)
{
    pw_python_memory sent;
    pw_mpi_handle datatype;
    if (!pw_python_read_array(sendbuf, false, &sent, &datatype)) Py_RETURN_NOTIMPLEMENTED;
    const pw_vectors it = vectors_of(&sent, 0, datatype, op);
    PyObject *answer = reduce(of, &it, root);
    pw_python_release(&sent);
    return answer;
}

/* comm, call, sendbuf, recvbuf, op, root. */
PyObject *pw_python_reduce(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    collective of;
    pw_mpi_handle op;
    int32_t root;
    (void)self;
    (void)num_args;
    if (!read_call(args[0], args[1], &of) || !read_operation(args[4], &op) ||
        !read_root(&of, args[5], &root))
        Py_RETURN_NOTIMPLEMENTED;
    return root == of.channel->rank ? reduce_at_root(&of, args, op, root)
                                    : reduce_elsewhere(&of, args[2], op, root);
}
