"""Snapshots in Spark's catalog: views and table functions."""
