"""From the user's own measurements and tables to a profile and a workload."""
