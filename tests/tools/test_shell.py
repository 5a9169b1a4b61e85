from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from watchkeeper import ToolError, ToolOutput
from watchkeeper_tools import process, shell

pytestmark = pytest.mark.anyio

Run = Callable[..., Awaitable[ToolOutput]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (made,) = shell.tools(root=tmp_path)
    function: Run = made.function
    return function


def test_the_tool(tmp_path: Path) -> None:
    (made,) = shell.tools(root=tmp_path, hosts=["ignored"])
    assert made.name == "run_command"
    assert made.dangerous
    assert made.effect.writes == ("",)
    assert made.timeout is not None
    assert made.timeout > shell.MAX_SECONDS
    assert made.schema["properties"]["seconds"]["maximum"] == shell.MAX_SECONDS


async def test_output_and_errors_in_their_order(run: Run) -> None:
    assert await run(argv=["sh", "-c", "echo one; echo two >&2; echo three"]) == ToolOutput(
        "one\ntwo\nthree\n", productive=True, evidence={"exit_code": 0}
    )


async def test_no_output_is_said(run: Run) -> None:
    assert (await run(argv=["true"])).content == "[no output, exit code 0]"


async def test_a_nonzero_exit_is_a_result(run: Run) -> None:
    assert await run(argv=["sh", "-c", "echo no; exit 3"]) == ToolOutput(
        "no\n[exit code 3]", productive=False, error="exit_3", evidence={"exit_code": 3}
    )


async def test_a_signal_is_named(run: Run) -> None:
    answer = await run(argv=["sh", "-c", "kill -SEGV $$"])
    assert (answer.content, answer.error) == ("[killed by signal 11 (SIGSEGV)]", "signal_11")


async def test_stdin(run: Run) -> None:
    assert (await run(argv=["cat"], stdin="hé" * 100_000)).productive
    assert (await run(argv=["wc", "-c"], stdin="hé\n")).content.strip() == "4"
    assert (await run(argv=["cat"])).content == "[no output, exit code 0]"


async def test_stdin_that_nobody_reads(run: Run) -> None:
    assert (await run(argv=["true"], stdin="x" * 900_000)).error is None


async def test_there_is_no_shell(run: Run) -> None:
    assert (await run(argv=["echo", "$HOME", "*", "; exit 1"])).content == "$HOME * ; exit 1\n"


async def test_a_program_that_is_not_there(run: Run) -> None:
    assert (await run(argv=["no-such-program"])).error == "not_found"
    assert "argv is a list" in (await run(argv=["ls -l"])).content


async def test_a_program_that_may_not_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo")
    with pytest.raises(ToolError, match="cannot be run: permission denied"):
        await run(argv=["./script"])


@pytest.mark.parametrize(
    "argv", [[], [""], ["echo", "a\0b"], ["echo", "\ud800"], ["echo", "x" * 200_000], ["echo"] * 2000]
)
async def test_arguments_that_cannot_be_used(run: Run, argv: list[str]) -> None:
    with pytest.raises(ToolError):
        await run(argv=argv)


async def test_where_it_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("/")
    assert (await run(argv=["pwd", "-P"])).content.strip() == str(tmp_path.resolve())
    assert (await run(argv=["pwd", "-P"], cwd="in")).content.strip() == str(tmp_path.resolve() / "in")
    assert (await run(argv=["pwd"], cwd="none")).error == "not_found"
    for cwd in ("..", "/", "link", "in/../.."):
        with pytest.raises(ToolError):
            await run(argv=["pwd"], cwd=cwd)


async def test_the_environment_is_an_allow_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD_OF_MINE", "secret")
    monkeypatch.setenv("WANTED", "yes")
    (made,) = shell.tools(root=tmp_path, env_allow=["WANTED"])
    lines = (await made.function(argv=["env"])).content.splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert names <= {*shell.ALLOWED, "WANTED", process.MARK}
    assert {"PATH", "WANTED", process.MARK} <= names


async def test_nothing_of_ours_is_open_in_it(run: Run) -> None:
    listed = (await run(argv=["ls", "/proc/self/fd"])).content.split()
    assert listed == ["0", "1", "2", "3"]  # 3 is the directory that ls itself reads


async def test_it_has_a_session_of_its_own(run: Run) -> None:
    session = (await run(argv=[sys.executable, "-c", "import os; print(os.getsid(0))"])).content
    assert int(session) != os.getsid(0)


async def test_output_is_bounded_in_memory_and_keeps_both_ends(run: Run) -> None:
    script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"
    answer = await run(argv=["sh", "-c", script])
    assert answer.content.startswith("first\n")
    assert answer.content.endswith("last\n")
    assert len(answer.content) < process.HEAD + process.TAIL + 100
    assert "bytes of output are left out" in answer.content


def test_output_counts_what_it_drops() -> None:
    output = process.Output()
    for _ in range(1000):
        output.add(b"x" * 1000)
    assert output.total == 1_000_000
    assert len(output._tail) <= 2 * process.TAIL
    assert f"[… {1_000_000 - process.HEAD - process.TAIL:,} bytes of output are left out …]" in output.text()


async def test_a_flood_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FLOOD", 1_000_000)
    answer = await run(argv=["yes"], seconds=60)
    assert answer.error == "too_much_output"
    assert not answer.productive


async def test_timeout_keeps_the_output_so_far(run: Run) -> None:
    answer = await run(argv=["sh", "-c", "echo begun; exec sleep 600"], seconds=0.3)
    assert answer.error == "timeout"
    assert answer.content == "begun\n[ended after 0.3 seconds: it was not done]"


async def test_many_side_by_side(run: Run) -> None:
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        answers[number] = (await run(argv=["sh", "-c", f"echo {number}; exit {number}"])).content

    async with anyio.create_task_group() as group:
        for number in range(1, 21):
            group.start_soon(one, number)
    assert answers == {number: f"{number}\n[exit code {number}]" for number in range(1, 21)}


async def test_a_sandbox_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="bubblewrap") as raised:
        shell.tools(root=tmp_path, sandbox=True)
    assert raised.value.hint


def bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    probe = [str(program), "--unshare-all", "--ro-bind", "/", "/", "true"]
    return program is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed or may not be used here")
async def test_in_a_sandbox_only_the_root_is_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (made,) = shell.tools(root=root, sandbox=True)
    run: Run = made.function
    assert (await run(argv=["sh", "-c", "echo x > made; pwd"], cwd="in")).content.strip() == str(root / "in")
    assert (root / "in" / "made").read_text("utf-8") == "x\n"
    assert (await run(argv=["cat", str(tmp_path / "secret")])).error == "exit_1"
    assert (await run(argv=["touch", "/usr/x"])).error == "exit_1"
    assert (await run(argv=["mount", "-o", "remount,rw", "/usr"])).error is not None
    network = await run(argv=["cat", "/proc/net/dev"])
    assert [line.split(":")[0].strip() for line in network.content.splitlines()[2:]] in ([], ["lo"])
    assert (await run(argv=["sh", "-c", "exit 7"])).error == "exit_7"
