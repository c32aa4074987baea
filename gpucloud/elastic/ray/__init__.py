"""What a Ray cluster needs of a fleet: its nodes in Ray's words, its configuration, and how a node joins."""
