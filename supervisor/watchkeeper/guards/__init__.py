"""Guards: pure rules around the loop."""
