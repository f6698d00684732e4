/* What libfabric calls first: the provider `pagewire`, what it can do, and its fabric. */
#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>

#include "transport/fabric/absent.h"
#include "transport/fabric/domain.h"
#include "transport/fabric/info.h"
#include "transport/fabric/process.h"

#define PROVIDER_VERSION FI_VERSION(0, 1)
#define FABRIC_VERSION FI_VERSION(2, 5) /* of libfabric's interface */

static pw_fabric_library library;

static int fabric_close(struct fid *fid)
{
    free(fid);
    return 0;
}

static int no_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out,
                      void *context)
{
    (void)fabric, (void)info, (void)out, (void)context;
    return -FI_ENOSYS;
}

static int no_event_queue(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
                          void *context)
{
    (void)fabric, (void)attr, (void)out, (void)context;
    return -FI_ENOSYS;
}

static int no_wait_set(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
    (void)fabric, (void)attr, (void)out;
    return -FI_ENOSYS;
}

static int no_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    (void)fabric, (void)fids, (void)count;
    return -FI_ENOSYS;
}

static struct fi_ops fid_ops = PW_FI_ONLY_CLOSE(fabric_close);
static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = pw_fi_domain_open,
    .passive_ep = no_passive,
    .eq_open = no_event_queue,
    .wait_open = no_wait_set,
    .trywait = no_trywait,
};

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
    if (attr->name && strcmp(attr->name, PW_FI_NAME)) return -FI_ENODATA;
    pw_fi_fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric) return -FI_ENOMEM;
    fabric->fid.fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fid_ops};
    fabric->fid.ops = &fabric_ops;
    *out = &fabric->fid;
    return 0;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **out)
{
    (void)node, (void)service, (void)flags; /* addresses come from fi_getname alone */
    return pw_fi_info(&library, version, PROVIDER_VERSION, hints, out);
}

static void cleanup(void) { pw_fi_detach_marks(); }

static struct fi_provider provider = {
    .version = PROVIDER_VERSION,
    .fi_version = FABRIC_VERSION,
    .name = PW_FI_NAME,
    .getinfo = getinfo,
    .fabric = open_fabric,
    .cleanup = cleanup,
};

FI_EXT_INI
{
    pw_sentence reason;
    pw_sentence_clear(&reason);
    if (pw_fabric_library_find(__builtin_return_address(0), &library, &reason) < 0) {
        pw_fi_say(reason.text);
        return NULL;
    }
    pw_fi_process_set_library(&library);
    return &provider;
}
