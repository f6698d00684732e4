/* What the provider offers, and whether that is what the application asks for. */
#ifndef PW_FABRIC_INFO_H
#define PW_FABRIC_INFO_H
#include "transport/fabric/library.h"
#include "transport/fabric/objects.h"

#define PW_FI_NAME "pagewire"

/* As fi_getinfo: 0, -FI_ENODATA when a hint cannot be met, -FI_ENOMEM. */
int pw_fi_info(const pw_fabric_library *library, uint32_t api_version, uint32_t provider_version,
               const struct fi_info *hints, struct fi_info **out);
#endif
