"""A daily run on one machine: a systemd timer or a line of cron starts it, and a lock keeps two from meeting."""
