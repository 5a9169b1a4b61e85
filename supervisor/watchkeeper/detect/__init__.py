"""Detection of runaways: pure, one detector a file."""
