"""The network between the nodes: topologies, routes, placement, and links that nodes share."""
