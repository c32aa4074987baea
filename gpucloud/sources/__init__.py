"""The files of this machine that travel to boxes: which of them, and as one archive."""
