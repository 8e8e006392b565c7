"""The face with Spark: savepoints, Spark's catalog, and its streaming queries."""
