"""One machine: runs a pipeline step by step, and survives being killed or stopped anywhere."""
