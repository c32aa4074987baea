"""Alibaba Cloud for gpucloud."""
