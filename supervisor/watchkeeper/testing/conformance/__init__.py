"""What every engine must do, as functions over a :class:`Ground`: for those of ours and for those of third parties.

Each check is an async function that takes a ground, the place where the runs of one test are kept, and fails with an
``AssertionError`` that says what is wrong. Run each on asyncio and on trio::

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_engine(check, tmp_path):
        await check(MyGround(tmp_path))

An engine that plays no worker's part (a client of a service) gives the worker's engine as ``worker()`` and itself as
``control()``.
"""

from __future__ import annotations

from . import appending, commanding, leasing, listing, sharing, submitting, watching
from .ground import Check as Check
from .ground import Ground as Ground

CHECKS: tuple[Check, ...] = (
    *submitting.CHECKS,
    *leasing.CHECKS,
    *appending.CHECKS,
    *watching.CHECKS,
    *commanding.CHECKS,
    *listing.CHECKS,
    *sharing.CHECKS,
)

__all__ = ["CHECKS", "Check", "Ground"]
