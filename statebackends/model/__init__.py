"""Model of states, keys and entries, independent of the backend that wrote them."""
