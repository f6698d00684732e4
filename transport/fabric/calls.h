/* The calls of libfabric's and of the MPI library's: they lock the node, and the virtual clock
 * counts what lies between them as compute. With marks the outermost is the MPI call, whose kind
 * says whether the program waits; without, each call of libfabric's is one by itself. */
#ifndef PW_FABRIC_CALLS_H
#define PW_FABRIC_CALLS_H
#include "transport/fabric/objects.h"

void pw_fi_enter(pw_fi_process *process);
void pw_fi_leave(pw_fi_process *process);

/* Does the program wait for something in the call that this thread is in? Without marks: always. */
bool pw_fi_is_waiting(void);
/* A turn of the node in the call of this thread; a negative FI_E* when the run is over. *moved:
 * something happened. */
int pw_fi_turn(pw_fi_process *process, bool *moved);
/* The call that this thread is in has looked for completions; delivered: and got some. */
void pw_fi_note_look(bool delivered);
/* It sends these bytes. */
void pw_fi_count_bytes(pw_fi_process *process, uint64_t num_bytes);

/* Have the preloaded library tell of MPI's calls, where it is; the node was just made, in one. */
int pw_fi_attach_marks(pw_fi_process *process);
/* It tells no more: this library is about to go. */
void pw_fi_detach_marks(void);
#endif
