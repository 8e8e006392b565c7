"""What a changed or new snapshot is made of, and the writing of it."""
