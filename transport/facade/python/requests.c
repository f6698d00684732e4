/* Requests for operations, and waits for them.
 *
 * A request has the handle of a generalized one of MPI's, so that no other has it. MPI takes long
 * to make and to complete one. So when an operation is over, its request becomes REQUEST_NULL here,
 * and the generalized one, which MPI knows as not complete, serves the next operation. */
#include "transport/facade/python/state.h"
#include <structmember.h>
#include <string.h>

#include "node/clock.h"

#define POOL_MAX 1024u

static PyObject *pool[POOL_MAX];
static uint32_t num_pooled;

/* ---- operations */

typedef struct {
    PyObject_HEAD;
    pw_operation *c;
    PyObject *span;     /* holds the buffer */
    PyObject *complete; /* a Grequest, or a function: completes the user's request */
    char unpacks;       /* once it is over, its bytes are to go elsewhere */
} held_operation;

static int begin_operation(PyObject *self, PyObject *args, PyObject *names)
{
    held_operation *held = (held_operation *)self;
    unsigned long long address;
    PyObject *span;
    (void)names;
    if (!PyArg_ParseTuple(args, "KO", &address, &span)) return -1;
    held->c = (pw_operation *)(uintptr_t)address;
    Py_INCREF(span);
    Py_XDECREF(held->span);
    held->span = span;
    return 0;
}

static void end_operation(PyObject *self)
{
    held_operation *held = (held_operation *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (pw_python.messaging && held->c) pw_call_drop(pw_python.messaging, held->c);
    Py_XDECREF(held->span);
    Py_XDECREF(held->complete);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *is_done(PyObject *self, void *nothing)
{
    const held_operation *held = (held_operation *)self;
    (void)nothing;
    return PyBool_FromLong(__atomic_load_n(&held->c->done, __ATOMIC_ACQUIRE));
}

PyObject *pw_python_operation_class(void)
{
    static PyMemberDef members[] = {
        {"address", T_ULONGLONG, offsetof(held_operation, c), READONLY, NULL},
        {"span", T_OBJECT, offsetof(held_operation, span), READONLY, NULL},
        {"complete", T_OBJECT, offsetof(held_operation, complete), 0, NULL},
        {"unpacks", T_BOOL, offsetof(held_operation, unpacks), 0, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyGetSetDef looks[] = {{"done", is_done, NULL, NULL, NULL},
                                  {NULL, NULL, NULL, NULL, NULL}};
    static PyType_Slot slots[] = {
        {Py_tp_init, begin_operation},
        {Py_tp_dealloc, end_operation},
        {Py_tp_members, members},
        {Py_tp_getset, looks},
        {0, NULL},
    };
    static PyType_Spec spec = {.name = "pagewire.HeldOperation",
                               .basicsize = sizeof(held_operation),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                               .slots = slots};
    return PyType_FromSpec(&spec);
}

/* ---- generalized requests */

static PyObject *take_generalized(void)
{
    if (num_pooled) return pool[--num_pooled];
    return PyObject_CallFunctionObjArgs(pw_python.start, Py_None, Py_None, Py_None, NULL);
}

/* argument NULL: there is none. 0; -1 and an exception. */
static int call_it(PyObject *function, PyObject *argument)
{
    PyObject *result = PyObject_CallFunctionObjArgs(function, argument, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int call_method(PyObject *object, const char *name)
{
    PyObject *result = PyObject_CallMethod(object, name, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Let MPI have it; -1 and an exception. */
static int give_back(PyObject *generalized)
{
    const int code = call_method(generalized, "Complete");
    return code < 0 ? code : call_it(pw_python.wait, generalized);
}

/* Takes the reference. */
static int keep_generalized(PyObject *generalized)
{
    if (num_pooled < POOL_MAX) {
        pool[num_pooled++] = generalized;
        return 0;
    }
    const int code = give_back(generalized);
    Py_DECREF(generalized);
    return code;
}

PyObject *pw_python_close(PyObject *self, PyObject *nothing)
{
    int code = 0;
    (void)self;
    (void)nothing;
    pw_python.messaging = NULL;
    while (num_pooled && code == 0) {
        PyObject *generalized = pool[--num_pooled];
        code = give_back(generalized);
        Py_DECREF(generalized);
    }
    if (code < 0) return NULL;
    Py_RETURN_NONE;
}

/* ---- requests */

PyObject *pw_python_attribute(PyObject *object, PyObject **name, const char *text)
{
    if (!*name && !(*name = PyUnicode_InternFromString(text))) return NULL;
    return PyObject_GetAttr(object, *name);
}

static PyObject *key_of(PyObject *request)
{
    static PyObject *name;
    return pw_python_attribute(request, &name, "handle");
}

/* Operation and request for it, which has the generalized one's handle. */
static PyObject *stand_for(held_operation *held, PyObject *generalized)
{
    uintptr_t handle = 0;
    memcpy(&handle, pw_python.handle_of(generalized), (size_t)pw_python.handle_bytes);
    PyObject *request = pw_python.new_request(handle);
    PyObject *key = request ? key_of(request) : NULL;
    held->complete = generalized;
    if (key && PyDict_SetItem(pw_python.active, key, (PyObject *)held) < 0) Py_CLEAR(request);
    if (!key) Py_CLEAR(request);
    Py_XDECREF(key);
    return request;
}

PyObject *pw_python_request(pw_operation *operation, PyObject *buffer)
{
    held_operation *held =
        (held_operation *)PyType_GenericAlloc((PyTypeObject *)pw_python.operation, 0);
    if (!held) return NULL; /* the operation goes on without anybody */
    held->c = operation;
    held->span = PyMemoryView_FromObject(buffer);
    PyObject *generalized = held->span ? take_generalized() : NULL;
    PyObject *request = generalized ? stand_for(held, generalized) : NULL;
    Py_DECREF(held);
    return request;
}

/* ---- waits */

typedef struct {
    PyObject *request; /* the caller's */
    PyObject *key;
    held_operation *held; /* NULL: MPI's own, complete or none */
} waited;

static void let_go(waited *of)
{
    Py_XDECREF(of->key);
    Py_XDECREF((PyObject *)of->held);
}

static bool is_same(PyObject *one, PyObject *other)
{
    return !memcmp(pw_python.handle_of(one), pw_python.handle_of(other),
                   (size_t)pw_python.handle_bytes);
}

/* 1; 0: it is neither of ours nor complete at once; -1 and an exception. */
static int look_up(PyObject *request, waited *out)
{
    *out = (waited){.request = request};
    if (!pw_python.messaging || !PyObject_TypeCheck(request, (PyTypeObject *)pw_python.request))
        return 0;
    if (is_same(request, pw_python.at_once) || is_same(request, pw_python.null)) return 1;
    out->key = key_of(request);
    PyObject *found = out->key ? PyDict_GetItemWithError(pw_python.active, out->key) : NULL;
    if (PyErr_Occurred()) return -1;
    if (!found || !PyObject_TypeCheck(found, (PyTypeObject *)pw_python.operation)) return 0;
    out->held = (held_operation *)Py_NewRef(found);
    return 1;
}

/* Its operation is over: its request is not active any more. */
static int finish(const waited *of)
{
    held_operation *held = of->held;
    PyObject *complete = held->complete;
    if (held->unpacks && call_method((PyObject *)held, "poll") < 0) return -1;
    if (!complete) return 0; /* twice in a list */
    if (PyDict_DelItem(pw_python.active, of->key) < 0) return -1;
    held->complete = NULL;
    if ((PyObject *)Py_TYPE(complete) != pw_python.grequest) {
        const int code = call_it(complete, NULL);
        Py_DECREF(complete);
        return code < 0 ? code : call_it(pw_python.wait, of->request);
    }
    memcpy(pw_python.handle_of(of->request), pw_python.handle_of(pw_python.null),
           (size_t)pw_python.handle_bytes);
    return keep_generalized(complete);
}

static bool is_well(const held_operation *held)
{
    return !held->c->error && !pw_operation_is_truncated(held->c);
}

/* request, call. */
PyObject *pw_python_wait(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    const int64_t began_ns = pw_clock_wall_ns();
    const uint32_t call = (uint32_t)PyLong_AsLong(args[1]);
    PyObject *answer = NULL;
    waited of;
    int code;
    (void)self;
    (void)num_args;
    const int found = look_up(args[0], &of);
    if (found == 0) answer = Py_NewRef(Py_NotImplemented);
    if (found > 0) {
        Py_BEGIN_ALLOW_THREADS;
        code = of.held ? pw_call_wait(pw_python.messaging, call, began_ns, of.held->c, 0)
                       : pw_call_wait_all(pw_python.messaging, call, began_ns, NULL, 0);
        Py_END_ALLOW_THREADS;
        if (code < 0) answer = PyLong_FromLong(code);
        else if (!(of.held ? finish(&of) : call_it(pw_python.wait, of.request)))
            answer = Py_NewRef(!of.held || is_well(of.held) ? Py_None : (PyObject *)of.held);
    }
    let_go(&of);
    return answer;
}

/* request, call. */
PyObject *pw_python_test(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    const int64_t began_ns = pw_clock_wall_ns();
    const uint32_t call = (uint32_t)PyLong_AsLong(args[1]);
    PyObject *answer = NULL;
    waited of;
    int code;
    (void)self;
    (void)num_args;
    const int found = look_up(args[0], &of);
    if (found >= 0 && !of.held) answer = Py_NewRef(Py_NotImplemented);
    if (found > 0 && of.held) {
        Py_BEGIN_ALLOW_THREADS;
        code = pw_call_test(pw_python.messaging, call, began_ns, of.held->c);
        Py_END_ALLOW_THREADS;
        if (code < 0) answer = PyLong_FromLong(code);
        else if (code == 0) answer = Py_NewRef(Py_False);
        else if (!finish(&of)) answer = Py_NewRef(is_well(of.held) ? Py_True : (PyObject *)of.held);
    }
    let_go(&of);
    return answer;
}

/* 1: all are well, 0: some have an error, a code, or -1 and an exception. */
static int wait_for(waited *all, Py_ssize_t num, uint32_t call, int64_t began_ns, int *code)
{
    pw_operation **operations = PyMem_Malloc((size_t)(num + 1) * sizeof *operations);
    PyObject *at_once = PyList_New(0);
    uint32_t num_ours = 0;
    int done = operations && at_once ? 0 : -1;
    for (Py_ssize_t i = 0; done == 0 && i < num; i++) {
        if (all[i].held) operations[num_ours++] = all[i].held->c;
        else done = PyList_Append(at_once, all[i].request);
    }
    if (done == 0) {
        Py_BEGIN_ALLOW_THREADS;
        *code = pw_call_wait_all(pw_python.messaging, call, began_ns, operations, num_ours);
        Py_END_ALLOW_THREADS;
        for (Py_ssize_t i = 0; *code >= 0 && done == 0 && i < num; i++)
            if (all[i].held) done = finish(&all[i]);
        if (*code >= 0 && done == 0 && PyList_Size(at_once))
            done = call_it(pw_python.wait_for_all, at_once);
    }
    if (!operations) PyErr_NoMemory();
    PyMem_Free(operations);
    Py_XDECREF(at_once);
    return done;
}

static PyObject *operations_of(const waited *all, Py_ssize_t num)
{
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < num; i++)
        if (all[i].held && PyList_Append(made, (PyObject *)all[i].held) < 0) Py_CLEAR(made);
    return made;
}

/* requests: a list; call. */
PyObject *pw_python_wait_for_all(PyObject *self, PyObject *const *args, Py_ssize_t num_args)
{
    const int64_t began_ns = pw_clock_wall_ns();
    const uint32_t call = (uint32_t)PyLong_AsLong(args[1]);
    const Py_ssize_t num = PyList_Size(args[0]);
    waited *all = PyMem_Malloc((size_t)(num + 1) * sizeof *all);
    PyObject *answer = NULL;
    Py_ssize_t num_found = 0;
    int found = 1, code = 1;
    (void)self;
    (void)num_args;
    if (!all) return PyErr_NoMemory();
    while (found > 0 && num_found < num) {
        found = look_up(PyList_GetItem(args[0], num_found), &all[num_found]);
        num_found++;
    }
    if (found == 0) answer = Py_NewRef(Py_NotImplemented);
    else if (found > 0 && wait_for(all, num, call, began_ns, &code) == 0) {
        if (code < 0) answer = PyLong_FromLong(code);
        else answer = code > 0 ? Py_NewRef(Py_None) : operations_of(all, num);
    }
    for (Py_ssize_t i = 0; i < num_found; i++) let_go(&all[i]);
    PyMem_Free(all);
    return answer;
}
