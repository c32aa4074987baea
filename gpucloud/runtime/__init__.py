"""What the work of a command stands on: its context, threads with deadlines, and isolation of failures."""
