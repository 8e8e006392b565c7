"""Keyed state as rows: entries to columns and back, sorted by key, as text and as JSON."""
