"""Define a run on disk: its identity, and the names, content and integrity of its files."""
