"""Rows of a table as entries of state."""
