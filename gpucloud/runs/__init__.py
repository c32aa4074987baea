"""Work that outlives a box: a run of one command, whose box goes with it unless it keeps results."""
