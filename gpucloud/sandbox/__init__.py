"""Local emulated clouds: one process on loopback that speaks the vendors' own protocols.

What the emulators share is here; each provider brings the emulator of its cloud, through the entry-point
group ``gpucloud.sandboxes`` (see :mod:`gpucloud.sandbox.emulator`). :mod:`gpucloud.sandbox.client` starts the
process and controls it; its imports are light.
"""
