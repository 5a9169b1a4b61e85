"""What of a long conversation a model still reads: a view over the log, made smaller in steps, never an edit of it."""
