"""Statistics on small summaries: warm-up, intervals over seeds, saturation. It knows no files and no Spark."""
