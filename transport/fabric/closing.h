/* What becomes of an endpoint's operations when it closes: none is told, the program's buffers are
 * its own again, and what peers still want of them finds nobody. */
#ifndef PW_FABRIC_CLOSING_H
#define PW_FABRIC_CLOSING_H
#include "transport/fabric/objects.h"

/* Its queues and counters are there still. Lets others in meanwhile. */
void pw_fi_abandon(pw_fi_process *process, pw_fi_endpoint *endpoint);
#endif
