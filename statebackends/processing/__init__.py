"""User functions over one key at a time: state backends, timers, windows and what drives them."""
