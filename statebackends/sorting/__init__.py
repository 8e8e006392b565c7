"""External sort of rows by key group and key, the first step of every writer of keyed state."""
