"""Snapshots of the changelog state backend: what was written as a whole, and the changes since, replayed."""
