#include "unimem/on_node.h"
#include "native/status.h"
#include "unimem/dma.h"
#include <stdlib.h>
#include <string.h>

struct pw_unimem_on_node {
    pw_node *node;
    pw_unimem *unimem;
    unim_dma *dma;
};

static int send_frame(void *context, uint32_t peer, const uint8_t *data, uint32_t num_bytes)
{
    pw_node *node = ((pw_unimem_on_node *)context)->node;
    uint8_t *frame = pw_node_take_frame(node);
    if (!frame) return PW_ERR_NOMEM;
    memcpy(frame, data, num_bytes);
    return pw_node_send_frame(node, peer, frame, num_bytes);
}

static int receive(void *context, uint32_t source, const uint8_t *frame, uint32_t frame_bytes)
{
    pw_unimem_on_node *self = context;
    if (frame[offsetof(pw_envelope, kind)] >= PW_MESSAGE_OF_DMA)
        return pw_dma_receive(self->dma, source, frame, frame_bytes);
    int code = pw_unimem_receive(self->unimem, source, frame, frame_bytes);
    while (code >= 0 && (code = pw_unimem_serve(self->unimem)) > 0) continue;
    return code;
}

static int turned(void *context)
{
    const pw_unimem_on_node *self = context;
    return self->dma ? pw_dma_move(self->dma) : 0;
}

int pw_unimem_on_node_create(pw_node *node,
                             uint64_t (*spawn)(void *context, const unimem_fork_request *wanted),
                             void *context, pw_unimem_on_node **out)
{
    pw_unimem_on_node *self = malloc(sizeof *self);
    if (!self) return pw_node_fail(node, PW_ERR_NOMEM, "no memory for Unimem");
    *self = (pw_unimem_on_node){.node = node};
    const pw_unimem_host host = {
        .context = self, .send = send_frame, .spawn_context = context, .spawn = spawn};
    const pw_node_service service = {.context = self, .message = receive, .turned = turned};
    int code = pw_unimem_create(pw_node_ni(node), pw_node_costs(node), pw_node_ni_settings(node),
                                pw_node_number(node), pw_node_count(node), &host, &self->unimem);
    if (code < 0) pw_node_fail(node, code, "Unimem: %s", pw_status_text(code));
    else code = pw_dma_create(node, &self->dma);
    if (code == PW_OK) code = pw_node_set_service(node, &service, PW_UNIMEM_FRAME_MAX_BYTES);
    if (code == PW_OK) {
        *out = self;
        return PW_OK;
    }
    pw_dma_destroy(self->dma);
    pw_unimem_destroy(self->unimem);
    free(self);
    return code;
}

void pw_unimem_on_node_destroy(pw_unimem_on_node *self)
{
    if (!self) return;
    pw_node_set_service(self->node, NULL, 0);
    pw_dma_destroy(self->dma);
    pw_unimem_destroy(self->unimem);
    free(self);
}

pw_unimem *pw_unimem_of_node(pw_unimem_on_node *self) { return self->unimem; }
unim_dma *pw_dma_of_node(pw_unimem_on_node *self) { return self->dma; }
