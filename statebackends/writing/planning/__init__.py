"""What is to be written: described, checked and planned."""
