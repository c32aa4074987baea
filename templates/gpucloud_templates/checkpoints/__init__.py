"""Keeps a folder of this box in an object store, from which the next box of the same run restores it.

``begin SETTINGS`` remembers its settings and restores the newest set of the run; ``watch SECONDS`` uploads
every so many seconds; ``upload`` uploads once, now, and at the end of the box, which ``GPUCLOUD_END_REASON``
tells, also its logs (``upload early``, which another one follows, does not); ``status`` tells what there is;
``wait`` waits for the end of the command, and stores what it leaves. SETTINGS are JSON: ``rclone`` (the
program), ``folder``, ``run`` (its folder in the store, as rclone names it), ``attempt``, ``logs`` (the files
of each kind), ``marker`` (a pattern, or empty), ``job`` (the folder of the command), ``results`` (paths to be
brought home), ``leave`` (what ends the machine, or nothing).

An attempt writes ``RUN/attempts/ATTEMPT/`` alone. In it ``NUMBER/`` has the files that a set adds, and
``sets/NUMBER.json``, written after them, is its manifest: the files of the whole set, each with the number
of the set that has added it. ``latest.json`` is the newest manifest once more. An upload that is cut off
leaves the sets before as they were. ``logs/KIND.log`` has the ends of the box's logs, ``results/NUMBER/`` the
files of a path to be brought home, and ``ended.json``, written last of all, how the command ended. Nothing is
ever deleted here.

It needs Python 3.8 and rclone, runs as the box's user, and believes no file of another attempt: it may have
been written by a box that somebody else had taken over.
"""
