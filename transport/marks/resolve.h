/* Finds what a wrapper stands before. Any thread; not in a signal handler. */
#ifndef PW_MARKS_RESOLVE_H
#define PW_MARKS_RESOLVE_H

/* The next function after this library of the first of these names that is there, or NULL. Each
 * name ends with NUL, the list with another. */
void *pw_marks_find(const char *names);

#endif
