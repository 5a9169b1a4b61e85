"""The reliability suite: small parts of it run with the other tests, all of it by ``sh scripts/reliability``."""
