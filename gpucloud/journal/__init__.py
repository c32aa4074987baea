"""The journal of boxes, intents and resources, and of the process that works on each box."""
