"""Define declarative commit protocols: the schema of their TOML files, their reader, and the built-in protocols."""
