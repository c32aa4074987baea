"""Volumes and snapshots: bought through ``purchase``, attached to boxes."""
