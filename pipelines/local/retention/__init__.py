"""What stays in a root and what goes: read from the disk (`inventory`), decided (`rule`), done (`removal`)."""
