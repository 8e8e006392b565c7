"""User functions in Spark's tasks: bootstrapping state and reading it."""
