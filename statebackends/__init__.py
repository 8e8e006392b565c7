"""Meaning of state: tables, assignment of key groups, joins, writing and user functions, without Spark."""
