"""The interface to the clouds: what a provider must implement, and the one wrapper that uses it."""
