/* Settings given as texts, "section.name=value": the names, units and limits are those of the
 * settings registry (docs/settings.md); `costs.FIELD=number` changes one cost of the platform.
 * Stateless. */
#ifndef PW_NODE_SETTINGS_TEXT_H
#define PW_NODE_SETTINGS_TEXT_H
#include "transport/node/defaults.h"
#include "transport/node/sentence.h"

/* cdef begin */
/* The defaults, then each text of the list, which NULL ends; of one name the last counts. A list of
 * NULL is empty. PW_ERR_INVALID with the reason, *out is then of no use. */
int pw_node_settings_read(pw_node_settings *out, const char *const *assignments,
                          pw_sentence *reason);
/* Values that are fine alone and not together: PW_ERR_INVALID with the reason. */
int pw_node_settings_check(const pw_node_settings *settings, pw_sentence *reason);
/* cdef end */
#endif
