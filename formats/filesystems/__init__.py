"""File systems of a snapshot: local files, object stores, HDFS."""
