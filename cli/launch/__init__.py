"""Starts the ranks of a run, watches them, and gathers what they leave."""
