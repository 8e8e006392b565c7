"""Operators that run user functions over records."""
