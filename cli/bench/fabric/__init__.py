"""`pagewire bench --transport fabric`: C programs, plain and over the provider, in turns."""
