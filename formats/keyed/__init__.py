"""Streams of keyed state: canonical, heap and changelog."""
