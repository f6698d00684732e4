#include <Python.h>

#include "node/clock.h"
#include "transport/facade/calls.h"
#include "transport/facade/python_calls.h"

static struct {
    pw_messaging *messaging;
    PyObject *states, *classes, *types;
    int any_source, any_tag, tag_limit;
    PyObject *handle, *point_to_point, *address, *dtype; /* names */
} here;

static PyObject *prepare(PyObject *self, PyObject *args)
{
    unsigned long long messaging;
    (void)self;
    if (!PyArg_ParseTuple(args, "KOOOiii", &messaging, &here.states, &here.classes, &here.types,
                          &here.any_source, &here.any_tag, &here.tag_limit))
        return NULL;
    Py_INCREF(here.states); /* and stay: a program prepares once */
    Py_INCREF(here.classes);
    Py_INCREF(here.types);
    here.messaging = (pw_messaging *)(uintptr_t)messaging;
    here.handle = PyUnicode_InternFromString("handle");
    here.point_to_point = PyUnicode_InternFromString("point_to_point");
    here.address = PyUnicode_InternFromString("address");
    here.dtype = PyUnicode_InternFromString("dtype");
    if (!here.handle || !here.point_to_point || !here.address || !here.dtype) return NULL;
    Py_RETURN_NONE;
}

/* ---- arguments; where they are others than these functions take, no exception is left */

typedef struct {
    pw_channel *channel;
    Py_buffer buffer; /* to be released */
    int32_t rank, tag;
    uint32_t call, flags;
    int64_t began_ns;
} arguments;

static bool read_int(PyObject *object, int32_t *out)
{
    int overflow;
    if (!PyLong_CheckExact(object)) return false;
    const long value = PyLong_AsLongAndOverflow(object, &overflow);
    *out = (int32_t)value;
    return !overflow && value == *out;
}

/* NULL: the NI does not carry its messages. */
static pw_channel *channel_of(PyObject *comm)
{
    PyObject *handle = PyObject_GetAttr(comm, here.handle);
    PyObject *state = handle ? PyDict_GetItemWithError(here.states, handle) : NULL;
    Py_XINCREF(state);
    PyObject *channel = state ? PyObject_GetAttr(state, here.point_to_point) : NULL;
    PyObject *address = channel ? PyObject_GetAttr(channel, here.address) : NULL;
    pw_channel *found = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    Py_XDECREF(channel);
    Py_XDECREF(state);
    Py_XDECREF(handle);
    if (!found) PyErr_Clear();
    return found;
}

/* As is_array of arrays.py. */
static bool is_array(PyObject *thing)
{
    int is_known = PySet_Contains(here.classes, (PyObject *)Py_TYPE(thing));
    if (is_known > 0) {
        PyObject *dtype = PyObject_GetAttr(thing, here.dtype);
        is_known = dtype ? PyDict_Contains(here.types, dtype) : -1;
        Py_XDECREF(dtype);
    }
    if (is_known < 0) PyErr_Clear();
    return is_known > 0;
}

static bool is_within(const arguments *read, bool is_receive)
{
    const int32_t rank = read->rank, tag = read->tag;
    return ((rank >= 0 && rank < read->channel->size) || (is_receive && rank == here.any_source)) &&
           ((tag >= 0 && tag <= here.tag_limit) || (is_receive && tag == here.any_tag));
}

/* comm, buf, rank, tag, call, flags: the last two are ours. */
static bool read_arguments(PyObject *const *args, bool is_receive, arguments *out)
{
    out->began_ns = pw_clock_wall_ns();
    if (!read_int(args[2], &out->rank) || !read_int(args[3], &out->tag)) return false;
    out->channel = channel_of(args[0]);
    if (!out->channel || !is_within(out, is_receive) || !is_array(args[1])) return false;
    out->call = (uint32_t)PyLong_AsLong(args[4]);
    out->flags = (uint32_t)PyLong_AsLong(args[5]);
    if (!PyObject_GetBuffer(args[1], &out->buffer, is_receive ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        return true;
    PyErr_Clear(); /* not contiguous, or not writable */
    return false;
}

static uint64_t address_of(const arguments *read) { return (uintptr_t)read->buffer.buf; }

static uint64_t bytes_of(const arguments *read) { return (uint64_t)read->buffer.len; }

/* ---- calls */

static PyObject *call_send(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_send(here.messaging, of.call, of.began_ns, of.channel, address_of(&of),
                          bytes_of(&of), of.rank, of.tag, of.flags);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of.buffer);
    if (!result) Py_RETURN_NONE;
    return PyLong_FromLongLong(result);
}

static PyObject *call_receive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    void *status = PyLong_AsVoidPtr(args[6]);
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_receive(here.messaging, of.call, of.began_ns, of.channel, address_of(&of),
                             bytes_of(&of), of.rank, of.tag, of.flags, status);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of.buffer);
    if (!result) Py_RETURN_NONE;
    return PyLong_FromLongLong(result);
}

static PyObject *call_isend(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_isend(here.messaging, of.call, of.began_ns, of.channel, address_of(&of),
                           bytes_of(&of), of.rank, of.tag, of.flags);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of.buffer);
    return PyLong_FromLongLong(result);
}

static PyObject *call_ireceive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_ireceive(here.messaging, of.call, of.began_ns, of.channel, address_of(&of),
                              bytes_of(&of), of.rank, of.tag, of.flags);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of.buffer);
    return PyLong_FromLongLong(result);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
#define NUM_FUNCTIONS 5

static PyMethodDef functions[NUM_FUNCTIONS] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    FUNCTION(call_send),
    FUNCTION(call_receive),
    FUNCTION(call_isend),
    FUNCTION(call_ireceive),
};

void *pw_python_calls(void)
{
    const PyGILState_STATE held = PyGILState_Ensure();
    PyObject *made = PyTuple_New(NUM_FUNCTIONS);
    for (int i = 0; made && i < NUM_FUNCTIONS; i++) {
        PyObject *function = PyCFunction_New(&functions[i], NULL);
        if (!function) Py_CLEAR(made);
        else PyTuple_SetItem(made, i, function);
    }
    PyGILState_Release(held);
    return made;
}
