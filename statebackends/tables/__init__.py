"""Tables of state: keyed, windows, timers, operator state, entries."""
