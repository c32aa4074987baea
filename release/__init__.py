"""Makes releases: the checks before one, the files of one, and the checks of those files.

Each module is a program, which a target of the Makefile runs; docs/dev/releasing.md tells the order.
"""
