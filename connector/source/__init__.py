"""The data source that Spark sees: reading in tasks, writing in tasks, commit."""
