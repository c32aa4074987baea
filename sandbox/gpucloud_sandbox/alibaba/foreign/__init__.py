"""Calls that only foreign tools use: key pairs."""
