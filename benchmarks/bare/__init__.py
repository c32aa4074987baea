"""The baselines of ``launch``: per cloud one lean script that makes the same calls, then waits for ssh.

``python -m benchmarks.bare.CLOUD``: the environment points the vendor's SDK at the sandbox, ``BARE`` holds
the offer that ``gpucloud plan`` chose as JSON, ``SSH_PROXY`` is ssh's way into the sandbox. Nothing is
retried, journalled or checked; ssh pins the host key as gpucloud does.
"""
