"""Answers: their form, what is checked in them, and what becomes of one that does not pass. Pure."""
