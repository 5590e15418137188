"""Looking at a root of local runs: which there are, what one came to, how two differ, where a model comes from."""
