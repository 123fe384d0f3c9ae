"""The command line, one module for each topic. Importing a module adds its commands to ``app``."""
