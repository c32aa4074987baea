"""Nodes for Slurm: its configuration, its programs, and how a box becomes a node."""
