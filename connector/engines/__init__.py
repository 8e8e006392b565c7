"""What runs plans and reads: with Arrow in this process, or with Spark."""
