"""What parts of the documentation follow from the code."""
