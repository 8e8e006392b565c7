"""Execution of plans: jobs of Spark, copies of files, and the publication of ``_metadata``."""
