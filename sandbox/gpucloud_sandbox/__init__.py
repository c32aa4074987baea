"""Local emulated clouds: one process on loopback that speaks the vendors' own protocols.

What the emulators share is here; each cloud's is in a folder of its own, and found through the entry-point
group ``gpucloud.sandboxes`` (see :mod:`gpucloud_sandbox.emulator`). :mod:`gpucloud_sandbox.client` starts the
process and controls it; its imports are light. gpucloud imports nothing of this package: it finds the
endpoints and the command ``sandbox`` through the groups ``gpucloud.endpoints`` and ``gpucloud.commands``.
"""
