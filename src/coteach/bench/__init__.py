"""Grids of runs: what they are, what is done and what is missing, and how the missing ones are run."""
