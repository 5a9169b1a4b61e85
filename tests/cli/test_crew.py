"""Worker processes: order, errors, and ends of every kind. A signal is waited for, never slept for."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from recording import recorded, step, write
from serving import PROGRAM, TIMEOUT, environment

from watchkeeper.cli import crew as crews
from watchkeeper.cli.crew import Crew
from watchkeeper.cli.exits import CommandError


def twice(number: int) -> int:
    return number * 2


def picky(number: int) -> int:
    if number == 5:
        raise ValueError("not five")
    return number


def deadly(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def big(number: int) -> bytes:
    return bytes(1 << 20)


@contextlib.contextmanager
def crew(work: crews.Callable[[int], crews.Given], jobs: int = 2) -> Iterator[Crew[int, crews.Given]]:
    made = Crew(work, jobs, lambda unit: f"unit {unit}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=["fork", "spawn"])
def _start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fork" and threading.active_count() > 1:
        pytest.skip("this process has threads and must not be forked")
    monkeypatch.setattr(crews, "_start_method", lambda: request.param)


@pytest.mark.usefixtures("_start")
class TestCrew:
    def test_what_comes_back_is_in_order(self) -> None:
        with crew(twice) as workers:
            assert list(workers.map(range(300))) == [number * 2 for number in range(300)]

    def test_an_error_of_the_work_is_told_whole(self) -> None:
        with crew(picky) as workers, pytest.raises(RuntimeError, match=r"in a worker process:\n(.|\n)*not five"):
            list(workers.map(range(20)))

    def test_a_worker_that_dies_is_named_with_what_it_was_at(self) -> None:
        with (
            crew(deadly) as workers,
            pytest.raises(CommandError, match=r"died \(killed by signal 9\) at unit 3; .* --jobs 1") as caught,
        ):
            list(workers.map(range(20)))
        assert caught.value.code == 1

    def test_units_are_taken_as_they_are_needed(self) -> None:
        taken = []

        def units() -> Iterator[int]:
            for number in range(1000):
                taken.append(number)
                yield number

        with crew(big) as workers:
            found = workers.map(units())
            for _ in range(3):
                next(found)
            assert len(taken) <= 3 + 2 * (crews.AHEAD + 1)

    def test_closing_ends_the_workers(self) -> None:
        with crew(twice) as workers:
            processes = [worker.process for worker in workers._workers]
            next(workers.map(range(9)))
        assert [process.is_alive() for process in processes] == [False, False]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def hear_interrupts() -> None:
    """What a shell starts in the background ignores them, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
class TestProgram:
    """The program with two workers, over a pipe that is never empty: it is at work when the signal comes."""

    @pytest.fixture
    def program(self, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
        pipe = tmp_path / "runs.jsonl"
        os.mkfifo(pipe)
        line = write(
            tmp_path / "one", [recorded(*[step(args={"n": n}, result="x" * 900) for n in range(90)])]
        ).read_bytes()
        command = [*PROGRAM, "replay", "--json", "--jobs", "2", str(pipe)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )

        def feed() -> None:
            with contextlib.suppress(OSError), pipe.open("wb") as file:
                while process.poll() is None:
                    file.write(line)

        feeder = threading.Thread(target=feed)
        feeder.start()
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        if process.poll() is None:
            process.kill()
        process.communicate()
        feeder.join(TIMEOUT)
        assert not feeder.is_alive()

    def ended(self, program: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Both pipes end only when the workers, who have them too, are gone."""
        _, errors = program.communicate(timeout=TIMEOUT)
        return program.returncode, errors.decode()

    def test_ctrl_c_ends_all(self, program: subprocess.Popen[bytes]) -> None:
        assert len(children(program.pid)) == 2
        os.killpg(program.pid, signal.SIGINT)
        assert self.ended(program) == (4, "watchkeeper: interrupted\n")

    def test_a_killed_worker_is_a_clear_error(self, program: subprocess.Popen[bytes]) -> None:
        os.kill(children(program.pid)[0], signal.SIGKILL)
        code, errors = self.ended(program)
        assert code == 1
        assert "a worker process died (killed by signal 9) at " in errors
        assert errors.count("\n") == 1

    def test_workers_end_with_a_program_that_is_killed(self, program: subprocess.Popen[bytes]) -> None:
        program.kill()
        assert self.ended(program) == (-9, "")
