"""What is behind tools/compare.py: cells, their processes, and what their figures mean."""
