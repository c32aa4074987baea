"""The resources in the clouds, compared with the journal."""
