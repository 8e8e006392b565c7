"""The end of a write: tasks, assembly, checks and commit."""
