"""The service: where its files are, and what runs beside the command line."""
