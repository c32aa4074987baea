"""Makes releases: the checks before one, the files of one, and the checks of those files.

Each module is a program, which a target of the Makefile runs; docs/releases.md tells the order.
"""
