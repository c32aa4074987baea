"""What the clouds hold against what the journal says."""
