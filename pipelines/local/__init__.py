"""Local runs: a pipeline step by step, resumable after a kill or stop at any point."""
