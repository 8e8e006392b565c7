"""Planning of a write: description, checks and decisions on the driver."""
