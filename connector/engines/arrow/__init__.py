"""The engine of this process, whose tables are Arrow."""
