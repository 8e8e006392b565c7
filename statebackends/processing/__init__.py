"""User functions over one key at a time: state backends, timers, windows and the operators that run the functions."""
