"""The driver of the suite: ``python -m reliability``, or ``sh scripts/reliability`` in an environment of its own."""

from __future__ import annotations

from .driver import main

main()
