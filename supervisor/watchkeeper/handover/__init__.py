"""What a person gets of a run that has ended: a report, its events, and a token with which to continue it."""
