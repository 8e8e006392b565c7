"""The engine of Spark: the data source, its readers and writers, and tables as DataFrames."""
