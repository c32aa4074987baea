"""A local page of what boxes cost and do: read-only, for one person on this machine."""
