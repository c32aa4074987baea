"""What a launch would do."""
