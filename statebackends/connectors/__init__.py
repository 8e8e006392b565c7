"""Tables of what sources and sinks keep: splits, source coordinators, committables and records in flight."""
