"""Plans for longer tasks: the outer loop around the turns of a run. Loaded for runs that have one."""
