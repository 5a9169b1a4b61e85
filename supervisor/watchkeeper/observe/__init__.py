"""Runs as others see them: log lines, Prometheus, OpenTelemetry, Perfetto.

Each is a reader of facts in a file of its own, given to ``Supervisor(observers=…)`` or to :func:`.following.follow`,
or a pure function of recorded facts. The core knows none of them.
"""
