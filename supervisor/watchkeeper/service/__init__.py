"""The service: an HTTP interface over any engine, who may use it, the client that is an engine itself; the control
process that serves it, and the worker processes that execute runs.

Nothing is imported here: the client needs no server's libraries.
"""
