#include "node/clock.h"
#include "transport/facade/python/state.h"
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
    static char *known[] = {"messaging", "states",    "classes",     "types",        "datatype",
                            "sizes",     "pickle",    "active",      "operation",    "request",
                            "grequest",  "start",     "wait",        "wait_for_all", "at_once",
                            "null",      "handle_of", "new_request", "handle_bytes", "any_source",
                            "any_tag",   "tag_limit", NULL};
    pw_python_state *to = &pw_python;
    unsigned long long messaging;
    PyObject *get, *new;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "$KOOOOOOOOOOOOOOOOOiiii", known, &messaging, &to->states, &to->classes,
            &to->types, &to->datatype, &to->sizes, &to->pickle, &to->active, &to->operation,
            &to->request, &to->grequest, &to->start, &to->wait, &to->wait_for_all, &to->at_once,
            &to->null, &get, &new, &to->handle_bytes, &to->any_source, &to->any_tag,
            &to->tag_limit))
        return NULL;
    *(void **)&to->handle_of = function_in(get);
    *(void **)&to->new_request = function_in(new);
    if (!to->handle_of || !to->new_request) return NULL;
    Py_INCREF(names); /* and with it all of them */
    to->messaging = (pw_messaging *)(uintptr_t)messaging;
    Py_RETURN_NONE;
}

/* ---- arguments; where they are others than these functions take, no exception is left */

typedef struct {
    pw_channel *channel;
    PyObject *memory; /* whose it is; both to be released */
    Py_buffer buffer;
    uint64_t num_bytes; /* of it */
    int32_t rank, tag;
    uint32_t call, flags;
    int64_t began_ns;
} arguments;

static bool read_int(PyObject *object, int32_t *out)
{
    int overflow;
    if (!PyIndex_Check(object) || !PyType_GetSlot(Py_TYPE(object), Py_nb_int)) return false;
    PyObject *number = PyNumber_Index(object); /* NumPy's ints are none of Python's */
    const long value = number ? PyLong_AsLongAndOverflow(number, &overflow) : -1;
    Py_XDECREF(number);
    *out = (int32_t)value;
    if (number) return !overflow && value == *out;
    PyErr_Clear();
    return false;
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

/* Rank and tag, which the channel has. */
static bool read_partner(PyObject *rank, PyObject *tag, bool is_receive, arguments *out)
{
    if (!read_int(rank, &out->rank) || !read_int(tag, &out->tag)) return false;
    return ((out->rank >= 0 && out->rank < out->channel->size) ||
            (is_receive && out->rank == pw_python.any_source)) &&
           ((out->tag >= 0 && out->tag <= pw_python.tag_limit) ||
            (is_receive && out->tag == pw_python.any_tag));
}

/* Of one of MPI's own datatypes whose elements are plain bytes; 0: it is another. */
static uint64_t element_bytes_of(PyObject *datatype)
{
    static PyObject *name;
    int32_t num_bytes = 0;
    if ((PyObject *)Py_TYPE(datatype) != pw_python.datatype) return 0;
    PyObject *handle = pw_python_attribute(datatype, &name, "handle");
    PyObject *size = handle ? PyDict_GetItemWithError(pw_python.sizes, handle) : NULL;
    if (!size || !read_int(size, &num_bytes)) PyErr_Clear();
    Py_XDECREF(handle);
    return (uint64_t)num_bytes;
}

/* memory, [memory, datatype] or [memory, count, datatype]: how many items it has; 0: another. */
static Py_ssize_t read_items(PyObject *specification, PyObject *items[3])
{
    const bool is_list = PyList_CheckExact(specification);
    items[0] = specification;
    if (!is_list && !PyTuple_CheckExact(specification)) return 1;
    const Py_ssize_t num = is_list ? PyList_Size(specification) : PyTuple_Size(specification);
    if (num < 2 || num > 3) return 0;
    for (Py_ssize_t i = 0; i < num; i++)
        items[i] = is_list ? PyList_GetItem(specification, i) : PyTuple_GetItem(specification, i);
    return num;
}

static bool is_memory(PyObject *thing)
{
    return PyBytes_CheckExact(thing) || PyByteArray_CheckExact(thing) || is_array(thing);
}

static void release(arguments *of)
{
    PyBuffer_Release(&of->buffer);
    Py_DECREF(of->memory);
}

static bool read_memory(PyObject *specification, bool is_receive, arguments *out)
{
    PyObject *items[3];
    int32_t count = 0;
    const Py_ssize_t num = read_items(specification, items);
    const uint64_t element_bytes = num > 1 ? element_bytes_of(items[num - 1]) : 1;
    if (!num || !element_bytes || !is_memory(items[0])) return false;
    if (num == 3 && (!read_int(items[1], &count) || count < 0)) return false;
    if (PyObject_GetBuffer(items[0], &out->buffer, is_receive ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
        PyErr_Clear(); /* not contiguous, or not writable */
        return false;
    }
    const uint64_t all_bytes = (uint64_t)out->buffer.len;
    out->memory = Py_NewRef(items[0]); /* a list may lose it */
    out->num_bytes = num == 3 ? (uint64_t)count * element_bytes : all_bytes;
    if (out->num_bytes <= all_bytes && out->num_bytes % element_bytes == 0) return true;
    release(out);
    return false;
}

/* comm, buf or object, rank, tag, call, flags: the last two are ours. All but the second. */
static bool read_ends(PyObject *const *args, bool is_receive, arguments *out)
{
    out->channel = pw_python.messaging ? channel_of(args[0]) : NULL;
    out->call = (uint32_t)PyLong_AsLong(args[4]);
    out->flags = (uint32_t)PyLong_AsLong(args[5]);
    return out->channel && read_partner(args[2], args[3], is_receive, out);
}

static bool read_arguments(PyObject *const *args, bool is_receive, arguments *out)
{
    out->began_ns = pw_clock_wall_ns();
    return read_ends(args, is_receive, out) && read_memory(args[1], is_receive, out);
}

/* ---- calls */

typedef int64_t posting(pw_messaging *messaging, uint32_t call, int64_t began_ns,
                        pw_channel *channel, uint64_t address, uint64_t num_bytes, int32_t rank,
                        int32_t tag, uint32_t flags);

/* Without the interpreter's lock. */
static int64_t post(posting *how, const arguments *of)
{
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result = how(pw_python.messaging, of->call, of->began_ns, of->channel,
                 (uintptr_t)of->buffer.buf, of->num_bytes, of->rank, of->tag, of->flags);
    Py_END_ALLOW_THREADS;
    return result;
}

static int64_t receive(const arguments *of, PyObject *status)
{
    void *to = PyLong_AsVoidPtr(status);
    int64_t result;
    Py_BEGIN_ALLOW_THREADS;
    result =
        pw_call_receive(pw_python.messaging, of->call, of->began_ns, of->channel,
                        (uintptr_t)of->buffer.buf, of->num_bytes, of->rank, of->tag, of->flags, to);
    Py_END_ALLOW_THREADS;
    return result;
}

static PyObject *none_or(int64_t result)
{
    if (!result) Py_RETURN_NONE;
    return PyLong_FromLongLong(result);
}

/* A request, or a code; None: nothing is left to do. */
static PyObject *posted(posting *how, arguments *of)
{
    const int64_t result = post(how, of);
    PyObject *answer = result > 0 ? pw_python_request((pw_operation *)(intptr_t)result, of->memory)
                                  : none_or(result);
    release(of);
    return answer;
}

static PyObject *call_send(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    const int64_t result = post(pw_call_send, &of);
    release(&of);
    return none_or(result);
}

static PyObject *call_receive(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of;
    (void)self;
    (void)num_args;
    if (!read_arguments(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    const int64_t result = receive(&of, args[6]);
    release(&of);
    return none_or(result);
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
    if (read_partner(args[7], args[8], true, in) && read_memory(args[6], true, in)) return true;
    release(out);
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
                              (uintptr_t)out.buffer.buf, out.num_bytes, out.rank, out.tag,
                              (uintptr_t)in.buffer.buf, in.num_bytes, in.rank, in.tag, out.flags,
                              status);
    Py_END_ALLOW_THREADS;
    release(&out);
    release(&in);
    return none_or(result);
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

static PyObject *send_pickle(PyObject *pickle, arguments *of)
{
    if (PyObject_GetBuffer(pickle, &of->buffer, PyBUF_SIMPLE)) return NULL;
    of->num_bytes = (uint64_t)of->buffer.len;
    const int64_t result = post(pw_call_send, of);
    PyBuffer_Release(&of->buffer);
    return result ? Py_BuildValue("LO", (long long)result, pickle) : Py_NewRef(Py_None);
}

static PyObject *call_send_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of = {0};
    (void)self;
    (void)num_args;
    if (!read_ends(args, false, &of)) Py_RETURN_NOTIMPLEMENTED;
    enter(of.call);
    of.call = 0;
    PyObject *pickle = PyObject_CallMethod(pw_python.pickle, "dumps", "O", args[1]);
    PyObject *answer = pickle ? send_pickle(pickle, &of) : NULL;
    Py_XDECREF(pickle);
    leave();
    return answer;
}

/* A tuple of it; NULL and an exception. */
static PyObject *object_in(const pw_operation *received)
{
    if (!received->num_bytes) return PyTuple_Pack(1, Py_None);
    PyObject *pickle = PyMemoryView_FromMemory((char *)(uintptr_t)received->address,
                                               (Py_ssize_t)received->num_bytes, PyBUF_READ);
    PyObject *object = pickle ? PyObject_CallMethod(pw_python.pickle, "loads", "O", pickle) : NULL;
    PyObject *answer = object ? PyTuple_Pack(1, object) : NULL;
    Py_XDECREF(object);
    Py_XDECREF(pickle);
    return answer;
}

static PyObject *call_receive_object(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    arguments of = {0};
    PyObject *answer;
    (void)self;
    (void)num_args;
    if (!read_ends(args, true, &of)) Py_RETURN_NOTIMPLEMENTED;
    enter(of.call);
    of.call = 0;
    of.flags = PW_CALL_KEEP | PW_CALL_UNSIZED;
    const int64_t result = receive(&of, args[6]);
    pw_operation *operation = result > 0 ? (pw_operation *)(intptr_t)result : NULL;
    if (!operation || operation->error) answer = PyLong_FromLongLong(result);
    else {
        answer = object_in(operation);
        pw_call_drop(pw_python.messaging, operation);
    }
    leave();
    return answer;
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
    FUNCTION(call_receive_object),
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
