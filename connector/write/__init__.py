"""How a plan becomes a published savepoint."""
