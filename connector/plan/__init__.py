"""Plans of changed and new savepoints, and their execution."""
