"""The guard: ends its box at the deadline or when it is idle. It is part of the user-data.

It needs Python 3.8 and its standard library, no network, no credential and no free disk space. Nothing that
it waits for can stop it: programs are started and looked at later. What must survive a reboot is written in
place, into files that are there since the first boot, so that a full disk does not matter. It writes its
report to ``/run/gpucloud/guard.json``, and figures for Prometheus to ``/run/gpucloud/metrics.prom``.

``arm`` is run by the first boot stage, on every boot; ``watch`` is the service; ``extend`` sets the deadline.
"""
