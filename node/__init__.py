"""One rank in C: an NI with clock, memory strategies, wires, messages, settings, report."""
