"""Changes of the state of sources and sinks: positions, splits, committables."""
