"""Root of the installed package; the top-level folders are its subpackages."""
