"""A run on disk: what it is called, where its files lie and what they are named, what they say, and whether they are whole."""
