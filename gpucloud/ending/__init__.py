"""Every way a bill ends: deadline, stop, teardown, settlement, sweep; journal and clouds compared."""
