#include "transport/fabric/library.h"

#include <dlfcn.h>
#include <string.h>

typedef struct {
    const char *name;
    size_t offset;
} entry_point;

static const entry_point entry_points[] = {
    {"fi_getinfo", offsetof(pw_fabric_library, getinfo)},
    {"fi_freeinfo", offsetof(pw_fabric_library, freeinfo)},
    {"fi_dupinfo", offsetof(pw_fabric_library, dupinfo)},
    {"fi_fabric", offsetof(pw_fabric_library, fabric)},
    {"fi_strerror", offsetof(pw_fabric_library, strerror)},
    {"fi_version", offsetof(pw_fabric_library, version)},
};

int pw_fabric_library_find(const void *address_within, pw_fabric_library *out, pw_sentence *reason)
{
    Dl_info file;
    const int code = PW_ERR_HOST;
    if (!dladdr(address_within, &file) || !file.dli_fname)
        return pw_sentence_refuse(reason, code,
                                  "whoever loaded the pagewire provider is no library: only a "
                                  "libfabric can, from a folder of FI_PROVIDER_PATH");
    const char *path = file.dli_fname;
    pw_fabric_library found = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)};
    if (!found.handle)
        return pw_sentence_refuse(
            reason, code, "libfabric cannot be loaded from %s: it is no library of its own", path);
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        void *function = dlsym(found.handle, entry_points[i].name);
        if (!function) {
            pw_sentence_refuse(reason, code,
                               "%s is not a libfabric that pagewire can use: it has no function "
                               "%s; use an MPI with a libfabric of its own, as the mpich wheel",
                               path, entry_points[i].name);
            goto failed;
        }
        memcpy((char *)&found + entry_points[i].offset, &function, sizeof function);
    }
    const uint32_t version = found.version();
    if (FI_VERSION_LT(version, PW_FABRIC_VERSION)) {
        pw_sentence_refuse(reason, code,
                           "the libfabric in %s is version %u.%u, pagewire needs at least %u.%u: "
                           "use a newer MPI, e.g. the mpich wheel",
                           path, FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(PW_FABRIC_VERSION),
                           FI_MINOR(PW_FABRIC_VERSION));
        goto failed;
    }
    *out = found;
    return PW_OK;
failed:
    dlclose(found.handle);
    return code;
}
