"""Access to a box over ssh: the client, its keys, the boot, files, the guard and jobs."""
