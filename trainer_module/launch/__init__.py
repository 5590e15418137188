"""Starts a job's processes: the launcher on one machine, the coordinator and hosts on several, and their children."""
