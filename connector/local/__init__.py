"""Tables of snapshots as Arrow in this process, without Spark and Java."""
