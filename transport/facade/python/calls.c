#include "node/clock.h"
#include "transport/facade/python/arguments.h"
#include "transport/facade/python_calls.h"

pw_python_state pw_python;

/* A function of mpi4py's; NULL and an exception. */
static void *function_in(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
}

/* By the names of pw_python_state's members. */
static PyObject *prepare(PyObject *self, PyObject *args, PyObject *names)
{
    static char *known[] = {"messaging",   "states",       "classes",    "types",      "handles",
                            "datatype",    "sizes",        "pickle",     "operations", "in_place",
                            "active",      "operation",    "request",    "grequest",   "start",
                            "wait",        "wait_for_all", "at_once",    "null",       "handle_of",
                            "new_request", "handle_bytes", "any_source", "any_tag",    "tag_limit",
                            NULL};
    pw_python_state *to = &pw_python;
    unsigned long long messaging;
    PyObject *get, *new;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "$KOOOOOOOOOOOOOOOOOOOOiiii", known, &messaging, &to->states, &to->classes,
            &to->types, &to->handles, &to->datatype, &to->sizes, &to->pickle, &to->operations,
            &to->in_place, &to->active, &to->operation, &to->request, &to->grequest, &to->start,
            &to->wait, &to->wait_for_all, &to->at_once, &to->null, &get, &new, &to->handle_bytes,
            &to->any_source, &to->any_tag, &to->tag_limit))
        return NULL;
    *(void **)&to->handle_of = function_in(get);
    *(void **)&to->new_request = function_in(new);
    if (!to->handle_of || !to->new_request) return NULL;
    Py_INCREF(names); /* and with it all of them */
    to->messaging = (pw_messaging *)(uintptr_t)messaging;
    Py_RETURN_NONE;
}

/* ---- calls of comm, buf or object, rank, tag, call, flags: the last two are ours */

typedef struct {
    pw_channel *channel;
    pw_python_memory memory;
    int32_t rank, tag;
    uint32_t call, flags;
    int64_t began_ns;
} arguments;

/* Rank and tag, which the channel has. */
static bool read_partner(PyObject *rank, PyObject *tag, bool is_receive, arguments *out)
{
    if (!pw_python_read_int(rank, &out->rank) || !pw_python_read_int(tag, &out->tag)) return false;
    return ((out->rank >= 0 && out->rank < out->channel->size) ||
            (is_receive && out->rank == pw_python.any_source)) &&
           ((out->tag >= 0 && out->tag <= pw_python.tag_limit) ||
            (is_receive && out->tag == pw_python.any_tag));
}

/* All but the memory. */
static bool read_ends(PyObject *const *args, bool is_receive, arguments *out)
{
    out->channel = pw_python_channel_of(args[0], false);
    out->call = (uint32_t)PyLong_AsLong(args[4]);
    out->flags = (uint32_t)PyLong_AsLong(args[5]);
    return out->channel && read_partner(args[2], args[3], is_receive, out);
}

static bool read_arguments(PyObject *const *args, bool is_receive, arguments *out)
{
    out->began_ns = pw_clock_wall_ns();
    return read_ends(args, is_receive, out) &&
           pw_python_read_memory(args[1], is_receive, &out->memory);
}

typedef int64_t posting(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t num_bytes, int32_t rank,
                        int32_t tag, uint32_t flags);

/* Without the interpreter's lock. */
static int64_t post(posting *how, const arguments *of)
{
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result =
        how(pw_python.messaging, of->call, of->began_ns, of->channel,
            (uintptr_t)of->memory.buffer.buf, of->memory.num_bytes, of->rank, of->tag, of->flags);
    Py_END_ALLOW_THREADS;
    return result;
}

static int64_t receive(const arguments *of, void *status)
{
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_receive(pw_python.messaging, of->call, of->began_ns, of->channel,
                             (uintptr_t)of->memory.buffer.buf, of->memory.num_bytes, of->rank,
                             of->tag, of->flags, status);
    Py_END_ALLOW_THREADS;
    return result;
}

/* A request, or a code; None: nothing is left to do. */
static PyObject *posted(posting *how, arguments *of)
{
    const int64_t result = post(how, of);
    PyObject *answer = result > 0
                           ? pw_python_request((pw_operation *)(intptr_t)result, of->memory.owner)
                           : pw_python_none_or(result);
    pw_python_release(&of->memory);
    return answer;
}

static PyObject *call_send(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    const int64_t result = post(pw_call_send, &of);
    pw_python_release(&of.memory);
    return pw_python_none_or(result);
}

static PyObject *call_receive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    const int64_t result = receive(&of, PyLong_AsVoidPtr(args[6]));
    pw_python_release(&of.memory);
    return pw_python_none_or(result);
}

static PyObject *call_isend(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    return posted(pw_call_isend, &of);
}

static PyObject *call_ireceive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    return posted(pw_call_ireceive, &of);
}

/* comm, sendbuf, dest, sendtag, call, flags, recvbuf, source, recvtag. */
static bool read_both(PyObject *const *args, arguments *out, arguments *in)
{
    if (!read_arguments(args, false, out)) return false;
    in->channel = out->channel;
    if (read_partner(args[7], args[8], true, in) &&
        pw_python_read_memory(args[6], true, &in->memory))
        return true;
    pw_python_release(&out->memory);
    return false;
}

static PyObject *call_exchange(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments out, in;
    int64_t result;
    (void)self;
    (void)num_args;
    if (!read_both(args, &out, &in)) Py_RETURN_NOTIMPLEMENTED;
    void *status = PyLong_AsVoidPtr(args[9]);
    Py_BEGIN_ALLOW_THREADS;
    result = pw_call_exchange(pw_python.messaging, out.call, out.began_ns, out.channel,
                              (uintptr_t)out.memory.buffer.buf, out.memory.num_bytes, out.rank,
                              out.tag, (uintptr_t)in.memory.buffer.buf, in.memory.num_bytes,
                              in.rank, in.tag, out.flags, status);
    Py_END_ALLOW_THREADS;
    pw_python_release(&out.memory);
    pw_python_release(&in.memory);
    return pw_python_none_or(result);
}

/* ---- pickled objects. Pickling is within the call, as by bracket.py. */

static void enter(uint32_t call)
{
    Py_BEGIN_ALLOW_THREADS;
    pw_call_enter(pw_python.messaging, call, 1);
    Py_END_ALLOW_THREADS;
}

static void leave(void)
{
    Py_BEGIN_ALLOW_THREADS;
    pw_call_leave(pw_python.messaging);
    Py_END_ALLOW_THREADS;
}

/* NULL and an exception. */
static PyObject *by_pickle(PyObject **name, const char *method, PyObject *argument)
{
    PyObject *function = pw_python_attribute(pw_python.pickle, name, method);
    PyObject *result = function ? PyObject_CallFunctionObjArgs(function, argument, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}

/* Its pickle, to be released; false and an exception. */
static bool open_pickle(PyObject *thing, pw_python_memory *out)
{
    static PyObject *name;
    out->owner = by_pickle(&name, "dumps", thing);
    if (!out->owner) return false;
    if (!PyObject_GetBuffer(out->owner, &out->buffer, PyBUF_SIMPLE)) {
        out->num_bytes = (uint64_t)out->buffer.len;
        return true;
    }
    Py_DECREF(out->owner);
    return false;
}

/* None; or what pw_call_send has said, and the pickle. */
static PyObject *send_object(arguments *of, PyObject *thing)
{
    if (!open_pickle(thing, &of->memory)) return NULL;
    const int64_t result = post(pw_call_send, of);
    PyObject *answer =
        result ? Py_BuildValue("LO", (long long)result, of->memory.owner) : Py_NewRef(Py_None);
    pw_python_release(&of->memory);
    return answer;
}

/* A tuple of it; NULL and an exception. */
static PyObject *object_in(const pw_operation *received)
{
    static PyObject *name;
    if (!received->num_bytes) return PyTuple_Pack(1, Py_None);
    PyObject *pickle = PyMemoryView_FromMemory((char *)(uintptr_t)received->address,
                                               (Py_ssize_t)received->num_bytes, PyBUF_READ);
    PyObject *object = pickle ? by_pickle(&name, "loads", pickle) : NULL;
    PyObject *answer = object ? PyTuple_Pack(1, object) : NULL;
    Py_XDECREF(object);
    Py_XDECREF(pickle);
    return answer;
}

/* The object in a tuple; or what pw_call_receive has said. status: its address; NULL: none. */
static PyObject *receive_object(arguments *of, PyObject *status)
{
    of->flags = PW_CALL_KEEP | PW_CALL_UNSIZED;
    const int64_t result = receive(of, status ? PyLong_AsVoidPtr(status) : NULL);
    pw_operation *operation = result > 0 ? (pw_operation *)(intptr_t)result : NULL;
    if (!operation || operation->error) return PyLong_FromLongLong(result);
    PyObject *answer = object_in(operation);
    pw_call_drop(pw_python.messaging, operation);
    return answer;
}

static PyObject *isend_object(arguments *of, PyObject *thing)
{
    return open_pickle(thing, &of->memory) ? posted(pw_call_isend, of) : NULL;
}

/* given: what the body takes. */
static PyObject *within_call(PyObject *const *args, bool is_receive,
                             PyObject *(*body)(arguments *of, PyObject *given), PyObject *given)
{
    arguments of = {0};
    if (!read_ends(args, is_receive, &of)) Py_RETURN_NOTIMPLEMENTED;
    enter(of.call);
    of.call = 0;
    PyObject *answer = body(&of, given);
    leave();
    return answer;
}

static PyObject *call_send_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    (void)self;
    (void)num_args;
    return within_call(args, false, send_object, args[1]);
}

static PyObject *call_isend_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    (void)self;
    (void)num_args;
    return within_call(args, false, isend_object, args[1]);
}

static PyObject *call_receive_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    (void)self;
    (void)num_args;
    return within_call(args, true, receive_object, args[6]);
}

/* As part of a call, whose arguments are valid: address of a pw_channel, rank, tag, object. */
static arguments read_part(PyObject *const *args)
{
    return (arguments){.channel = PyLong_AsVoidPtr(args[0]),
                       .rank = (int32_t)PyLong_AsLong(args[1]),
                       .tag = (int32_t)PyLong_AsLong(args[2])};
}

static PyObject *part_send_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of = read_part(args);
    (void)self;
    (void)num_args;
    return send_object(&of, args[3]);
}

static PyObject *part_receive_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of = read_part(args);
    (void)self;
    (void)num_args;
    return receive_object(&of, NULL);
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef functions[] = {
    {"prepare", (PyCFunction)(void (*)(void))prepare, METH_VARARGS | METH_KEYWORDS, NULL},
    FUNCTION(call_send),
    FUNCTION(call_receive),
    FUNCTION(call_isend),
    FUNCTION(call_ireceive),
    FUNCTION(call_exchange),
    FUNCTION(call_send_object),
    FUNCTION(call_isend_object),
    FUNCTION(call_receive_object),
    FUNCTION(part_send_object),
    FUNCTION(part_receive_object),
    FUNCTION(pw_python_barrier),
    FUNCTION(pw_python_broadcast),
    FUNCTION(pw_python_allgather),
    FUNCTION(pw_python_alltoall),
    FUNCTION(pw_python_gather),
    FUNCTION(pw_python_scatter),
    FUNCTION(pw_python_allreduce),
    FUNCTION(pw_python_reduce),
    FUNCTION(pw_python_wait),
    FUNCTION(pw_python_test),
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
