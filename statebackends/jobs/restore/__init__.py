"""Whether a job can restore a snapshot, and what goes where."""
