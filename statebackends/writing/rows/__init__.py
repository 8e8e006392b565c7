"""Conversion of table rows to state entries."""
