"""Names in plans of SQL jobs."""
