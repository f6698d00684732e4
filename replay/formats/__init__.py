"""Traces of other tools: what they have in common with ours is read and written."""
