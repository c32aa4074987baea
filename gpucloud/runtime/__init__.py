"""The runtime of a command: its context, threads with deadlines, and isolation of failures."""
