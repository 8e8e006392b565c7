"""Rows of Flink SQL: their names, from plans, and the spans of their windows."""
