/* The program's calls as Python makes them, without a step of the interpreter where arguments are
 * what they mostly are: a communicator with a state, ints, and a contiguous array of NumPy's. To
 * anything else the answer is NotImplemented, and Python reads it (point_to_point.py). */
#ifndef PW_FACADE_PYTHON_CALLS_H
#define PW_FACADE_PYTHON_CALLS_H

/* cdef begin */
/* A Python tuple of functions, a new reference; NULL: no memory.
 *
 * prepare(messaging, states, classes, types, any_source, any_tag, tag_limit): before the others.
 * messaging: address of the pw_messaging; states: what communicators have, by handle; classes: a
 * set, of arrays; types: a dictionary of their types of elements.
 *
 * send(comm, buf, dest, tag, call, flags), receive(comm, buf, source, tag, call, flags, status):
 * pw_call_send, pw_call_receive; status: an address. None: well; else their result.
 *
 * isend, ireceive(comm, buf, rank, tag, call, flags): pw_call_isend, pw_call_ireceive, and their
 * result. */
void *pw_python_calls(void);
/* cdef end */
#endif
