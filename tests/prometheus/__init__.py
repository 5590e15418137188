"""A real Prometheus that reads what processes of tests tell."""
