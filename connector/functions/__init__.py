"""User functions that make state from records, with and without Spark."""
