"""Input and output: files and object stores."""
