"""Check and plan of a restore: whether a job can restore a snapshot, and which state goes to which subtask."""
