"""Sockets over RDMA: stream connections between nodes for unmodified programs [D3.6 4]."""
