#include "node/clock.h"
#include "transport/facade/python/state.h"
#include "transport/facade/python_calls.h"

pw_python_state pw_python;

/* A function of mpi4py's; NULL and an exception. */
static void *function_in(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
}

static PyObject *prepare(PyObject *self, PyObject *args)
{
    pw_python_state *to = &pw_python;
    unsigned long long messaging;
    PyObject *get, *new;
    (void)self;
    if (!PyArg_ParseTuple(args, "KOOOOOOOOOOOOOOiiii", &messaging, &to->states, &to->classes,
                          &to->types, &to->active, &to->operation, &to->request, &to->grequest,
                          &to->start, &to->wait, &to->wait_for_all, &to->at_once, &to->null, &get,
                          &new, &to->handle_bytes, &to->any_source, &to->any_tag, &to->tag_limit))
        return NULL;
    *(void **)&to->handle_of = function_in(get);
    *(void **)&to->new_request = function_in(new);
    if (!to->handle_of || !to->new_request) return NULL;
    Py_INCREF(args); /* and with it all of them */
    to->messaging = (pw_messaging *)(uintptr_t)messaging;
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
    static PyObject *names[3];
    PyObject *handle = pw_python_attribute(comm, &names[0], "handle");
    PyObject *state = handle ? PyDict_GetItemWithError(pw_python.states, handle) : NULL;
    Py_XINCREF(state);
    PyObject *channel = state ? pw_python_attribute(state, &names[1], "point_to_point") : NULL;
    PyObject *address = channel ? pw_python_attribute(channel, &names[2], "address") : NULL;
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
    int is_known = PySet_Contains(pw_python.classes, (PyObject *)Py_TYPE(thing));
    if (is_known > 0) {
        static PyObject *name;
        PyObject *dtype = pw_python_attribute(thing, &name, "dtype");
        is_known = dtype ? PyDict_Contains(pw_python.types, dtype) : -1;
        Py_XDECREF(dtype);
    }
    if (is_known < 0) PyErr_Clear();
    return is_known > 0;
}

static bool is_within(const arguments *read, bool is_receive)
{
    const int32_t rank = read->rank, tag = read->tag;
    return ((rank >= 0 && rank < read->channel->size) ||
            (is_receive && rank == pw_python.any_source)) &&
           ((tag >= 0 && tag <= pw_python.tag_limit) || (is_receive && tag == pw_python.any_tag));
}

/* comm, buf, rank, tag, call, flags: the last two are ours. */
static bool read_arguments(PyObject *const *args, bool is_receive, arguments *out)
{
    out->began_ns = pw_clock_wall_ns();
    if (!pw_python.messaging) return false;
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

/* ---- calls */

typedef int64_t posting(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t num_bytes, int32_t rank,
                        int32_t tag, uint32_t flags);

/* Without the interpreter's lock. */
static int64_t post(posting *how, arguments *of)
{
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result = how(pw_python.messaging, of->call, of->began_ns, of->channel,
                 (uintptr_t)of->buffer.buf, (uint64_t)of->buffer.len, of->rank, of->tag, of->flags);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of->buffer);
    return result;
}

static PyObject *none_or(int64_t result)
{
    if (!result) Py_RETURN_NONE;
    return PyLong_FromLongLong(result);
}

/* What was posted: a request, or a code; None: nothing is left to do. */
static PyObject *posted(int64_t result, PyObject *buffer)
{
    if (result <= 0) return none_or(result);
    return pw_python_request((pw_operation *)(intptr_t)result, buffer);
}

static PyObject *call_send(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    return none_or(post(pw_call_send, &of));
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
    result = pw_call_receive(pw_python.messaging, of.call, of.began_ns, of.channel,
                             (uintptr_t)of.buffer.buf, (uint64_t)of.buffer.len, of.rank, of.tag,
                             of.flags, status);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&of.buffer);
    return none_or(result);
}

static PyObject *call_isend(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    return posted(post(pw_call_isend, &of), args[1]);
}

static PyObject *call_ireceive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    return posted(post(pw_call_ireceive, &of), args[1]);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    FUNCTION(call_send),
    FUNCTION(call_receive),
    FUNCTION(call_isend),
    FUNCTION(call_ireceive),
    FUNCTION(pw_python_wait),
    FUNCTION(pw_python_wait_for_all),
    {"close", pw_python_close, METH_NOARGS, NULL},
};
#define NUM_FUNCTIONS (sizeof functions / sizeof *functions)

static PyObject *make(void)
{
    static PyObject *(*const classes[])(void) = {pw_python_operation_class,
                                                 pw_python_channel_class};
    const size_t num_classes = sizeof classes / sizeof *classes;
    PyObject *made = PyTuple_New((Py_ssize_t)(NUM_FUNCTIONS + num_classes));
    for (size_t i = 0; made && i < NUM_FUNCTIONS + num_classes; i++) {
        PyObject *item =
            i < NUM_FUNCTIONS ? PyCFunction_New(&functions[i], NULL) : classes[i - NUM_FUNCTIONS]();
        if (!item || PyTuple_SetItem(made, (Py_ssize_t)i, item) < 0) Py_CLEAR(made);
    }
    if (!made) PyErr_Clear();
    return made;
}

void *pw_python_calls(void)
{
    const PyGILState_STATE held = PyGILState_Ensure();
    PyObject *made = make();
    PyGILState_Release(held);
    return made;
}
