"""Prometheus metrics of a training; docs/monitoring.md lists every metric by name."""
