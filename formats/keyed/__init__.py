"""Keyed state as streams of key groups: canonical, heap and changelog."""
