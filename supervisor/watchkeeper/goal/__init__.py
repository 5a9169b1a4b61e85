"""How a run is kept to its goal: the rules in the system prompt, the status line, drift, thoughts that repeat."""
