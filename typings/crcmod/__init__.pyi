# What gpucloud_sandbox.alibaba uses of crcmod 2.
from collections.abc import Callable

def mkCrcFun(
    poly: int,
    initCrc: int = ...,  # noqa: N803
    rev: bool = ...,
    xorOut: int = ...,  # noqa: N803
) -> Callable[[bytes], int]: ...
