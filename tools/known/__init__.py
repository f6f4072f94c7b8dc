"""Loaders and steps whose speed is known, to hold what a comparison measures against the truth."""
