"""Metrics for TFMA: from blocks of scored examples to values with confidence intervals."""
