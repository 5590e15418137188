"""Retention in a root: state from the disk (`inventory`), decisions (`rule`), removal (`removal`)."""
