"""What was and is paid."""
