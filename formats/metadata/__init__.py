"""The `_metadata` file of every version."""
