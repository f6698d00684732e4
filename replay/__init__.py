"""Programs run again from what was recorded: traces, and the nodes that they run on."""
