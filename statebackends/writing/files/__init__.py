"""Files of keyed and operator state, written by tasks."""
