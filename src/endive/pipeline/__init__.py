"""The data pipeline on Spark: sweeps, consolidation and metrics. The only place that imports pyspark."""
