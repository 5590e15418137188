"""The demo's columns."""

CONTEXT = ("user_id", "language", "tab", "recent_posts", "network_mbps", "hour")
"""Those with one row for all candidates."""
