"""AWS as a gpucloud provider. Importing this package imports no SDK."""
