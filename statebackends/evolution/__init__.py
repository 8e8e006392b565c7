"""SQL jobs that change: what the states of one compiled plan become under another. Nothing here reads state."""
