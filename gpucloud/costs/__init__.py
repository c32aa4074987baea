"""The costs of boxes: estimated, present and past."""
