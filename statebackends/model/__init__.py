"""What is known of states, keys and entries, whatever wrote them."""
