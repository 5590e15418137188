"""The closed loop, shown: users click on what they are served, and rankers learn from the log of that alone."""
