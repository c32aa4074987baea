"""``python -m gpucloud``."""

from gpucloud.cli.app import main

main()
