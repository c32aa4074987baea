"""Calls that only foreign tools use: networks and launch templates of their own, changes of a machine."""
