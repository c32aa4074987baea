"""The way into a box: the client, its keys, the boot, files, the guard and jobs."""
