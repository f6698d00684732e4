/* Channels of the RDMA library: insert, trigger, wait and poll. */
#include "transport/facade/python/state.h"
#include <structmember.h>

#include "node/clock.h"
#include "transport/facade/one_sided.h"

#define REMOTE_FIELDS 4 /* of RemoteBuffer: rank, address, num_bytes, key */

typedef struct {
    PyObject_HEAD;
    pw_one_sided c;
} held_channel;

static int begin_channel(PyObject *self, PyObject *args, PyObject *names)
{
    held_channel *held = (held_channel *)self;
    long long poll_ns;
    (void)names;
    held->c.number = PW_ONE_SIDED_READS;
    if (!PyArg_ParseTuple(args, "L|i", &poll_ns, &held->c.number)) return -1;
    held->c.poll_ns = poll_ns;
    return 0;
}

static void end_channel(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (pw_python.messaging) pw_one_sided_forget(pw_python.messaging, &((held_channel *)self)->c);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *address_of(PyObject *self, void *nothing)
{
    (void)nothing;
    return PyLong_FromVoidPtr(&((held_channel *)self)->c);
}

typedef int step(pw_messaging *messaging, pw_one_sided *channel, int64_t began_ns);

/* Without the interpreter's lock. */
static PyObject *without_lock(step *how, PyObject *self, int64_t began_ns)
{
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = how(pw_python.messaging, &((held_channel *)self)->c, began_ns);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(code);
}

/* ---- insert; where arguments are others than it takes, no exception is left */

static bool read_u64(PyObject *object, uint64_t *out)
{
    if (!object || !PyLong_Check(object)) return false;
    *out = PyLong_AsUnsignedLongLong(object);
    return *out != UINT64_MAX || !PyErr_Occurred();
}

static bool read_attribute(PyObject *object, PyObject **name, const char *text, uint64_t *out)
{
    PyObject *value = pw_python_attribute(object, name, text);
    const bool is_read = read_u64(value, out);
    Py_XDECREF(value);
    return is_read;
}

static bool read_local(PyObject *buffer, uint64_t *address, uint64_t *num_bytes)
{
    static PyObject *names[2];
    return read_attribute(buffer, &names[0], "address", address) &&
           read_attribute(buffer, &names[1], "num_bytes", num_bytes);
}

static bool read_remote(PyObject *remote, uint64_t fields[REMOTE_FIELDS])
{
    if (!PyTuple_Check(remote) || PyTuple_Size(remote) != REMOTE_FIELDS) return false;
    for (Py_ssize_t i = 0; i < REMOTE_FIELDS; i++)
        if (!read_u64(PyTuple_GetItem(remote, i), &fields[i])) return false;
    return true;
}

static bool read_notification(PyObject *remote, uint64_t rank, uint64_t *address)
{
    uint64_t rank_there;
    *address = 0;
    if (remote == Py_None) return true;
    return PyTuple_Check(remote) && PyTuple_Size(remote) == 2 &&
           read_u64(PyTuple_GetItem(remote, 0), &rank_there) && rank_there == rank &&
           read_u64(PyTuple_GetItem(remote, 1), address);
}

/* None: all that fits. */
static bool read_size(PyObject *object, uint64_t rest, uint64_t other_rest, uint64_t *out)
{
    if (object != Py_None) return read_u64(object, out);
    *out = rest < other_rest ? rest : other_rest;
    return true;
}

static bool fits(uint64_t offset, uint64_t num_bytes, uint64_t limit_bytes)
{
    return num_bytes <= limit_bytes && offset <= limit_bytes - num_bytes;
}

/* The channel stays as it was where this is false. */
static bool describe(pw_one_sided *channel, PyObject *const *args)
{
    uint64_t local, local_bytes, remote[REMOTE_FIELDS], num_bytes, local_offset, remote_offset;
    const pw_node *node = pw_python.messaging->node;
    const bool reads = channel->number == PW_ONE_SIDED_READS;
    pw_descriptor made = {.done = 0};
    if (!read_local(args[0], &local, &local_bytes) || !read_remote(args[2], remote) ||
        !read_u64(args[1], &local_offset) || !read_u64(args[3], &remote_offset) ||
        !read_size(args[4], local_bytes - local_offset, remote[2] - remote_offset, &num_bytes) ||
        num_bytes == 0 || num_bytes > UINT32_MAX || !fits(local_offset, num_bytes, local_bytes) ||
        !fits(remote_offset, num_bytes, remote[2]) || remote[0] >= pw_node_count(node) ||
        !read_notification(args[5], reads ? pw_node_number(node) : remote[0],
                           &made.destination_address_notification) ||
        !read_u64(args[6], &made.first_data_notification) ||
        !read_u64(args[7], &made.last_data_notification) || !read_u64(args[8], &made.reserved[0]) ||
        made.reserved[0] > PW_HINT_LOW || !read_u64(args[9], &made.reserved[1]) ||
        made.reserved[1] > PW_WINDOW_MAX)
        return false;
    local += local_offset;
    remote[1] += remote_offset;
    made.source_address = reads ? remote[1] : local;
    made.destination_address = reads ? local : remote[1];
    made.transfer_bytes = (uint32_t)num_bytes;
    channel->descriptor = made;
    channel->peer = (uint32_t)remote[0];
    channel->key = remote[3];
    return true;
}

/* local, its offset, remote, its offset, num_bytes, notification, two words of data, hint, window.
 */
static PyObject *insert(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    const int64_t began_ns = pw_clock_wall_ns();
    pw_one_sided *channel = &((held_channel *)self)->c;
    (void)num_args;
    if (!pw_python.messaging || (channel->handle && !channel->handle->done) ||
        !describe(channel, args)) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    return without_lock(pw_one_sided_insert, self, began_ns);
}

/* ---- the others; they say NotImplemented where nothing was inserted or triggered */

static PyObject *trigger(PyObject *self, PyObject *nothing)
{
    const int64_t began_ns = pw_clock_wall_ns();
    pw_one_sided *channel = &((held_channel *)self)->c;
    (void)nothing;
    if (!pw_python.messaging || !channel->is_inserted) Py_RETURN_NOTIMPLEMENTED;
    return without_lock(pw_one_sided_trigger, self, began_ns);
}

static bool is_triggered(PyObject *self)
{
    const pw_one_sided *channel = &((held_channel *)self)->c;
    return pw_python.messaging && channel->handle && !channel->is_inserted;
}

static PyObject *wait_for_it(PyObject *self, PyObject *goes_on)
{
    const int64_t began_ns = goes_on == Py_True ? 0 : pw_clock_wall_ns();
    if (!is_triggered(self)) Py_RETURN_NOTIMPLEMENTED;
    return without_lock(pw_one_sided_wait, self, began_ns);
}

static PyObject *look(PyObject *self, PyObject *nothing)
{
    const int64_t began_ns = pw_clock_wall_ns();
    (void)nothing;
    if (!is_triggered(self)) Py_RETURN_NOTIMPLEMENTED;
    return without_lock(pw_one_sided_poll, self, began_ns);
}

PyObject *pw_python_channel_class(void)
{
    static PyMethodDef methods[] = {
        {"_insert", (PyCFunction)(void (*)(void))insert, METH_FASTCALL, NULL},
        {"_start", trigger, METH_NOARGS, NULL},
        {"_finish", wait_for_it, METH_O, NULL},
        {"_look", look, METH_NOARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef looks[] = {{"_address", address_of, NULL, NULL, NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {
        {Py_tp_init, begin_channel},
        {Py_tp_dealloc, end_channel},
        {Py_tp_methods, methods},
        {Py_tp_getset, looks},
        {0, NULL},
    };
    static PyType_Spec spec = {.name = "pagewire.HeldChannel",
                               .basicsize = sizeof(held_channel),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                               .slots = slots};
    return PyType_FromSpec(&spec);
}
