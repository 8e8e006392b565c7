"""Plans of changed and new savepoints: immutable; nothing runs."""
