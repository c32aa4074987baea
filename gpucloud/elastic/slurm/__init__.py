"""Nodes for Slurm: what it is told of them, what its programs do, and how a box becomes a node."""
