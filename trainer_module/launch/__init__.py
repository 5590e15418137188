"""Who starts whom: the launcher of one machine, the coordinator and hosts of several, and their child processes."""
