"""Tables of results: defined once as a value, and written to terminals, pipes and notebooks."""
