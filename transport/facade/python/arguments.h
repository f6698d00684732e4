/* What calls of Python's are given. Where arguments are others than these functions take they
 * answer false or NULL, and leave no exception. */
#ifndef PW_FACADE_PYTHON_ARGUMENTS_H
#define PW_FACADE_PYTHON_ARGUMENTS_H
#include "transport/facade/python/state.h"

/* To be released. */
typedef struct {
    PyObject *owner;
    Py_buffer buffer;
    uint64_t num_bytes; /* of it */
} pw_python_memory;

bool pw_python_read_int(PyObject *object, int32_t *out);
/* NULL: the NI does not carry its messages. */
pw_channel *pw_python_channel_of(PyObject *comm, bool is_collective);
/* memory, [memory, datatype] or [memory, count, datatype], of an array, bytes or a bytearray. */
bool pw_python_read_memory(PyObject *specification, bool is_written, pw_python_memory *out);
/* All of an array, as array_of of arrays.py; its type of elements, as C has it. */
bool pw_python_read_array(PyObject *specification, bool is_written, pw_python_memory *out,
                          pw_mpi_handle *datatype);
void pw_python_release(pw_python_memory *memory);
/* What a call of C has said; None: all is well. */
PyObject *pw_python_none_or(int64_t result);
#endif
