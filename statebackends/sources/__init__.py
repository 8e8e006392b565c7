"""The files of keyed state of every backend, opened and planned."""
