"""Local clouds for trying things out: one process on loopback that speaks the vendors' own protocols.

What the emulators share is here; each cloud's own part comes with its provider, through the entry-point
group ``gpucloud.sandboxes`` (see :mod:`gpucloud.sandbox.emulator`). :mod:`gpucloud.sandbox.client` starts the
process and steers it, and imports nothing heavy.
"""
