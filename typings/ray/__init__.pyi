# What gpucloud.api.ray uses of Ray 2.60, which is not installed where types are checked.
__version__: str
