"""The service: control process, API, page and what they stand on."""
