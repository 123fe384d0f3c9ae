"""Run the data pipeline on Spark: sweeps, consolidation, metrics and queries. No other package imports pyspark."""
