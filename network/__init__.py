"""The network between nodes: topologies, routes, placement, links that nodes share."""
