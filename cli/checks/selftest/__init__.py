"""`pagewire selftest`: does pagewire work on this machine, and with which MPIs and kernels."""
