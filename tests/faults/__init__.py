"""Writes of real Spark whose processes are killed at random moments: the old savepoint is left, or the new one."""
