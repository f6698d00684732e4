/* What calls and requests of Python share; private to transport/facade/python/. */
#ifndef PW_FACADE_PYTHON_STATE_H
#define PW_FACADE_PYTHON_STATE_H
#include <Python.h>

#include "transport/facade/calls.h"

/* References that stay: a program prepares once. */
typedef struct {
    pw_messaging *messaging;      /* NULL: the node is down */
    PyObject *states;             /* what communicators have, by handle */
    PyObject *classes;            /* a set, of arrays */
    PyObject *types;              /* a dictionary of their types of elements */
    PyObject *handles;            /* the same, as C has them */
    PyObject *datatype;           /* class of MPI's datatypes */
    PyObject *sizes;              /* of MPI's own types whose elements are plain bytes, by handle */
    PyObject *pickle;             /* MPI's */
    PyObject *operations;         /* MPI's own for reductions, by handle: as C has them */
    PyObject *in_place;           /* IN_PLACE */
    PyObject *active;             /* operations that requests stand for, by handle */
    PyObject *operation;          /* class of these */
    PyObject *request, *grequest; /* MPI's classes */
    PyObject *start, *wait, *wait_for_all; /* MPI's own Grequest.Start, Request.Wait and Waitall */
    PyObject *at_once; /* a request of MPI's own, as it makes them for what is complete */
    PyObject *null;    /* REQUEST_NULL */
    int any_source, any_tag, tag_limit;
    int handle_bytes; /* of a request */
    PyObject *(*new_request)(uintptr_t handle);
    void *(*handle_of)(PyObject *request); /* where it is */
} pw_python_state;
extern pw_python_state pw_python;

/* Functions for the tuple, see python_calls.py. */
PyObject *pw_python_wait(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_test(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_wait_for_all(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_barrier(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_broadcast(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_allgather(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_alltoall(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_gather(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_scatter(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_allreduce(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_reduce(PyObject *self, PyObject *const *args, Py_ssize_t num_args);
PyObject *pw_python_close(PyObject *self, PyObject *nothing);
/* The classes that theirs are made of; NULL and an exception. */
PyObject *pw_python_operation_class(void);
PyObject *pw_python_channel_class(void);
/* A request for an operation that uses the memory of `buffer`; NULL and an exception. */
PyObject *pw_python_request(pw_operation *operation, PyObject *buffer);
/* obj.name; NULL and an exception. The name is made once. */
PyObject *pw_python_attribute(PyObject *object, PyObject **name, const char *text);
#endif
