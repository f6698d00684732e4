"""The R5's firmware: channels, blocks, classes, timeouts, the life of a block."""
