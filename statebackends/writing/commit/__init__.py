"""End of a write: tasks, assembly, checks and commit."""
