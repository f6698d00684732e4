"""The operating system's side of a page fault: handler, tasklet, page-in, library thread."""
