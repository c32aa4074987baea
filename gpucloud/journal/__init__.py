"""What is written down: boxes, intents and resources, and which process works on them."""
