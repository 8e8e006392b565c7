"""Byte formats of Flink snapshots. This package does not depend on Spark."""
