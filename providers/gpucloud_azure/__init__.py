"""Azure for gpucloud."""
