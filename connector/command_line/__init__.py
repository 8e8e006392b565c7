"""The command line ``pyspark-savepoint``: what is in a snapshot and what is wrong with it, without Spark and Java."""
