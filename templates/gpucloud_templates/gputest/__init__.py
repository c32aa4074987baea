"""A short test of a box's GPUs, with the driver alone: no toolkit, no framework, Python 3.8 or later.

It measures and reports; what is good enough is decided elsewhere (``gpucloud.bring_up.acceptance``). The
program travels to the box as a zip file that Python runs. ``kernels.ptx`` is made from ``kernels.cu`` by
``templates/make_kernels.py``; the driver turns it into code for the GPU at hand.
"""
