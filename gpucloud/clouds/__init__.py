"""The seam to the clouds: what a provider must do, and the one wrapper through which all others use it."""
