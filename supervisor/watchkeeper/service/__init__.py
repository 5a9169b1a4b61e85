"""The service: an HTTP interface over any engine, who may use it, and the client that is an engine itself.

Nothing is imported here: the client needs no server's libraries.
"""
