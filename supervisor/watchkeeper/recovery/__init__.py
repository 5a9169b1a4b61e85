"""What the facts of a run that was broken off say, so that another attempt can go on with it. Pure."""
