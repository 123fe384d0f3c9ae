"""Define a run on disk: identity, locations and names of files, their content, and their integrity."""
