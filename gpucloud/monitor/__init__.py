"""What others may watch: metrics for Prometheus, alert rules for them, and notices."""
