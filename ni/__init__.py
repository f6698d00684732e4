"""The network interface of one rank: source, destination, their events in virtual time."""
