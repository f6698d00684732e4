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
