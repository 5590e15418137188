"""What Prometheus is told of a training: docs/monitoring.md has every metric by name."""
