"""Start-up: ``import watchkeeper`` and short commands of the program, each in a fresh process.

Run it with ``python benchmarks/start.py``. Processes are started one after the other in each round, and the control is
an interpreter that imports nothing: what it takes is given beside each, not taken off. A command that this version does
not have is left out and said to be.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from reporting import Row, parser, report

CLI = "import sys; from watchkeeper.cli import main; sys.exit(main())"
COMMANDS = {
    "control": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import watchkeeper"],
    "help": [sys.executable, "-c", CLI, "--help"],
    "ps": [sys.executable, "-c", CLI, "ps"],
}
MISSING = 2
"""The exit code of a command that there is not."""


def once(command: list[str]) -> tuple[float, int]:
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began, done.returncode


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--rounds", type=int, default=15)
    options = options_of.parse_args()
    rounds = 2 if options.quick else options.rounds
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    codes: dict[str, int] = {}
    for number in range(rounds + 1):
        for name, command in COMMANDS.items():
            took, codes[name] = once(command)
            if number:
                taken[name].append(took)
    rows: list[Row] = [
        {
            "what": name,
            "seconds": statistics.median(times),
            "low": min(times),
            "high": max(times),
            "beyond_control": statistics.median(one - base for one, base in zip(times, taken["control"], strict=True)),
            "exit_code": codes[name],
        }
        for name, times in taken.items()
        if codes[name] != MISSING
    ]
    if codes["import"]:
        sys.exit("watchkeeper cannot be imported by this interpreter")
    figures = {f"{row['what']}_s": row["seconds"] for row in rows if row["what"] != "control"}
    for name, code in codes.items():
        if code == MISSING:
            print(f"watchkeeper {name} is no command of this version: left out", file=sys.stderr)
    columns = {"what": "", "seconds": ".3f", "low": ".3f", "high": ".3f", "beyond_control": ".3f", "exit_code": ""}
    report("start", rows, figures, columns=columns, as_json=options.json)


if __name__ == "__main__":
    main()
