"""The data source of Spark: read in tasks, write in tasks, commit."""
