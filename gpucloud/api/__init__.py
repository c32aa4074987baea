"""The public API: a client, its boxes, and the typed results that the JSON documents show."""
