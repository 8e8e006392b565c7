"""User functions in Spark's tasks: bootstrap and read state."""
