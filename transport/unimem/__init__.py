"""Unimem: a global address space, mailboxes and atomic operations between nodes [D3.6]."""
