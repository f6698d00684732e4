/* The program's calls as Python makes them, without a step of the interpreter where arguments are
 * what they mostly are: a communicator with a state, ints, contiguous memory, with one of MPI's own
 * datatypes or without, objects, requests of ours. To anything else the answer is NotImplemented,
 * and Python takes them. */
#ifndef PW_FACADE_PYTHON_CALLS_H
#define PW_FACADE_PYTHON_CALLS_H

/* cdef begin */
/* What python_calls.py says of them: a Python tuple, a new reference; NULL: no memory. */
void *pw_python_calls(void);
/* cdef end */
#endif
