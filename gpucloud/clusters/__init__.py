"""Several nodes as one: who they are, and what programs that work on all of them are told."""
