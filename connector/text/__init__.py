"""Texts of people: conditions, sizes and times, progress, and errors in the words of each door."""
