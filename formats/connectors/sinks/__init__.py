"""State of sinks: committables, transactions and files in progress."""
