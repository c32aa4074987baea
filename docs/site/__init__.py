"""What follows from the code, as pages of the site: every function returns the text of a page."""
