"""What is done with a box: launch, start, move, extend, share, connect, repeat a set-up."""
