"""The life of a box: launch, bring-up, extension, connection and teardown."""
