"""The plan of a launch."""
