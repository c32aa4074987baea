"""What a user asks for: the spec, its fields, and its file."""
