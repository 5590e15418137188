"""Which gates hold, and the verdict."""
