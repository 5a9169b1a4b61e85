"""A step line: how many calls few good runs exceed, learned from past good runs of one class of task."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction


def step_line(counts: Iterable[int], alpha: float = 0.05) -> int | None:
    """The line for a new run, from the calls that each of ``n`` past good runs took; None while there are too few.

    It is the k-th smallest count, with k = ceil((n + 1) · (1 - alpha)): split conformal prediction whose score is the
    count itself. There is none while k > n: at 5 % it takes 19 runs, at 1 % 99.

    Guarantee: a new good run takes more calls than the line with a probability of at most ``alpha``, whatever the
    distribution of the counts. Without ties the probability is also at least ``alpha - 1 / (n + 1)``: the line is not
    needlessly high.

    Assumptions, without which it says nothing:

    - The past runs and the new one are exchangeable: same class of task, same agent, model, tools and limits. After a
      change of any of these it must be learned anew.
    - The past runs are *all* good runs of that time, or a random part of them. If those beyond an earlier line were
      stopped, they are missing here and each new line comes out lower: learn from runs that no line has cut.
    - The probability is marginal: averaged over the draws of the past runs and over all tasks of the class. With one
      given set of past runs the share varies (it is Beta(k, n + 1 - k) for the part below), and long tasks of the class
      exceed the line more often than short ones.
    - It is about good runs only: how many bad ones the line catches, it does not say.

    Raises ``ValueError`` for an ``alpha`` that is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, not {alpha!r}")
    ordered = sorted(counts)
    k = math.ceil((len(ordered) + 1) * (1 - Fraction(str(alpha))))  # exact: 0.05 is a twentieth here
    return ordered[k - 1] if k <= len(ordered) else None
