"""Ingestion: day-partitioned or named-split logs in Parquet, CSV or TFRecord become splits of tf.Examples."""
