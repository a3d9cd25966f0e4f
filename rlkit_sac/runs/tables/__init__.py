"""What a run writes and shows: its directory, tables, loggers and progress."""
