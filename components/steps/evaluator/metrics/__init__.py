"""Metrics: from blocks of scored examples to values with confidence intervals."""
