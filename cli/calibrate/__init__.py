"""`pagewire calibrate`: costs of this host, measured; costs of a machine, fitted to a table."""
