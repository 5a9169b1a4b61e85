"""Second opinions: a small model or a rule beside the agent, with limits of its own."""
