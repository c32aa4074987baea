"""Work that outlives a box: a run of one command, in every outcome without a box left behind."""
