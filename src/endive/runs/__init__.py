"""A run on disk: identity, location and names of its files, their content, and their integrity."""
