"""Tables of the state of sources and sinks: splits, source coordinators, committables and records in flight."""
