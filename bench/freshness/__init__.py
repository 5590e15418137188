"""What freshness gives: one stream of examples, served by servers that follow its training at different intervals."""
