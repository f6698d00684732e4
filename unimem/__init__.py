"""Services on nodes: shared memory, DMA, mailbox, kernel messages, streams."""
