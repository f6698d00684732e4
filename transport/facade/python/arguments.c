#include "transport/facade/python/arguments.h"

bool pw_python_read_int(PyObject *object, int32_t *out)
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

pw_channel *pw_python_channel_of(PyObject *comm, bool is_collective)
{
    static PyObject *names[4];
    if (!pw_python.messaging) return NULL;
    PyObject *handle = pw_python_attribute(comm, &names[0], "handle");
    PyObject *state = handle ? PyDict_GetItemWithError(pw_python.states, handle) : NULL;
    PyObject *channel = NULL;
    Py_XINCREF(state);
    if (state)
        channel = is_collective ? pw_python_attribute(state, &names[1], "collective")
                                : pw_python_attribute(state, &names[2], "point_to_point");
    PyObject *address = channel ? pw_python_attribute(channel, &names[3], "address") : NULL;
    pw_channel *found = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    Py_XDECREF(channel);
    Py_XDECREF(state);
    Py_XDECREF(handle);
    if (!found) PyErr_Clear();
    return found;
}

/* What a dictionary has for an array's type of elements: borrowed; NULL: it is no array of NumPy's
 * own class, or of a type that MPI does not know. */
static PyObject *known_of(PyObject *dictionary, PyObject *thing)
{
    static PyObject *name;
    if (PySet_Contains(pw_python.classes, (PyObject *)Py_TYPE(thing)) <= 0) return NULL;
    PyObject *dtype = pw_python_attribute(thing, &name, "dtype");
    PyObject *found = dtype ? PyDict_GetItemWithError(dictionary, dtype) : NULL;
    Py_XDECREF(dtype);
    if (!found) PyErr_Clear();
    return found;
}

/* Of one of MPI's own datatypes whose elements are plain bytes; 0: it is another. */
static uint64_t element_bytes_of(PyObject *datatype)
{
    static PyObject *name;
    int32_t num_bytes = 0;
    if ((PyObject *)Py_TYPE(datatype) != pw_python.datatype) return 0;
    PyObject *handle = pw_python_attribute(datatype, &name, "handle");
    PyObject *size = handle ? PyDict_GetItemWithError(pw_python.sizes, handle) : NULL;
    if (!size || !pw_python_read_int(size, &num_bytes)) PyErr_Clear();
    Py_XDECREF(handle);
    return (uint64_t)num_bytes;
}

/* How many items it has, which are borrowed; 0: it is another. */
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

/* All of it. */
static bool open_memory(PyObject *owner, bool is_written, pw_python_memory *out)
{
    if (PyObject_GetBuffer(owner, &out->buffer, is_written ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
        PyErr_Clear(); /* not contiguous, or not writable */
        return false;
    }
    out->owner = Py_NewRef(owner); /* a list may lose it */
    out->num_bytes = (uint64_t)out->buffer.len;
    return true;
}

bool pw_python_read_memory(PyObject *specification, bool is_written, pw_python_memory *out)
{
    PyObject *items[3];
    int32_t count = 0;
    const Py_ssize_t num = read_items(specification, items);
    const uint64_t element_bytes = num > 1 ? element_bytes_of(items[num - 1]) : 1;
    if (!num || !element_bytes) return false;
    if (num == 3 && (!pw_python_read_int(items[1], &count) || count < 0)) return false;
    if (!PyBytes_CheckExact(items[0]) && !PyByteArray_CheckExact(items[0]) &&
        !known_of(pw_python.types, items[0]))
        return false;
    if (!open_memory(items[0], is_written, out)) return false;
    const uint64_t all_bytes = out->num_bytes;
    if (num == 3) out->num_bytes = (uint64_t)count * element_bytes;
    if (out->num_bytes <= all_bytes && out->num_bytes % element_bytes == 0) return true;
    pw_python_release(out);
    return false;
}

static bool is_type_of(PyObject *datatype, PyObject *array)
{
    PyObject *own = known_of(pw_python.types, array);
    if ((PyObject *)Py_TYPE(datatype) != pw_python.datatype || !own) return false;
    const int is_same = PyObject_RichCompareBool(own, datatype, Py_EQ);
    if (is_same < 0) PyErr_Clear();
    return is_same > 0;
}

bool pw_python_read_array(PyObject *specification, bool is_written, pw_python_memory *out,
                          pw_mpi_handle *datatype)
{
    PyObject *items[3];
    const Py_ssize_t num = read_items(specification, items);
    if (num < 1 || num > 2 || (num == 2 && !is_type_of(items[1], items[0]))) return false;
    PyObject *handle = known_of(pw_python.handles, items[0]);
    if (!handle) return false;
    *datatype = (pw_mpi_handle)PyLong_AsUnsignedLongLong(handle);
    return open_memory(items[0], is_written, out);
}

void pw_python_release(pw_python_memory *memory)
{
    PyBuffer_Release(&memory->buffer);
    Py_DECREF(memory->owner);
}

PyObject *pw_python_none_or(int64_t result)
{
    if (!result) Py_RETURN_NONE;
    return PyLong_FromLongLong(result);
}
