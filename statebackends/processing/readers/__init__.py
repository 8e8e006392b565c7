"""Operators that run user functions over the state of a snapshot."""
