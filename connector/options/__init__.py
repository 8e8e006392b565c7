"""Text of options, parsed in one place; columns of Spark and of Arrow."""
