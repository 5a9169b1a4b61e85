"""Where a task of trio waits. Imported only on trio."""

from __future__ import annotations

from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled


class Place:
    """A :class:`.Landing` that schedules the task itself again: an event keeps a set of tasks and a flag for all."""

    __slots__ = ("_set", "_task")

    def __init__(self) -> None:
        self._set = False
        self._task: Task | None = None

    def set(self) -> None:
        self._set = True
        task, self._task = self._task, None
        if task is not None:
            reschedule(task)

    async def wait(self) -> None:
        if not self._set:
            self._task = current_task()
            await wait_task_rescheduled(self._leave)

    def _leave(self, _: object) -> Abort:
        """Who waited is cancelled."""
        self._task = None
        return Abort.SUCCEEDED
