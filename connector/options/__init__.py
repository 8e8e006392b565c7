"""Parsing of options, and conversion between Spark's and Arrow's schemas."""
