"""The commands there are: what the help says of each, and where its function is. Data alone."""

from __future__ import annotations

HELP = """A supervisor for LLM agents that cannot run away."""
EPILOGUE = (
    "Exit codes: 0 completed, 1 failed, 2 usage, 3 stopped by watchkeeper, 4 cancelled, 5 not approved, "
    "6 handed over to a person, 69 no service, 78 bad configuration."
)
OF_RECORDING = "Exit codes: 0 ended by Ctrl-C, 1 not all could be recorded, 2 usage."
OF_RECORDINGS = (
    "Exit codes: 0 all was read and judged, 1 something could not be read, a detector failed, or there was no run (or "
    "none that passes the filters), 2 usage, 4 interrupted, or nobody reads the output."
)
OF_CASE = (
    "Exit codes: 0 the test is made, 1 something could not be read or written, or a detector failed, 2 usage, or no "
    "such run or call, 4 interrupted, or nobody reads the output."
)
OF_LOOKING = "Exit codes: 0 shown, 1 not all could be, 2 usage, or no such run, 69 no service."
OF_ASKING = (
    "Exit codes: 0 done, 1 refused, or not for all, 2 usage, or no such run, 69 no service, 124 not done in time."
)
OF_WAITING = (
    "Exit codes: 0 completed, 1 failed, 2 usage, or no such run, 3 stopped by watchkeeper, 4 cancelled, "
    "5 not approved, 6 handed over to a person, 69 no service, 124 not ended in time, 130 Ctrl-C."
)
OF_SERVING = "Exit codes: 0 ended when told to, 1 workers died too often, 2 usage, 78 bad configuration."
OF_SERVICE = "Exit codes: 0 shown, 1 the service refuses it, 2 usage, 69 no service."
OF_DOCTOR = "Exit codes: 0 nothing is wrong (or worth no more than a warning), 1 something is."
OF_TOKENS = "Exit codes: 0 done, 2 usage, or no such token, 78 bad configuration."
OF_BENCH = "Exit codes: 0 all was measured, 1 something could not be, 2 usage, 4 interrupted."
OF_CONFIG = "Exit codes: 0 the configuration can be taken, 2 usage, 78 it cannot."

RUNS, SERVICE, RECORDS = "Runs on this machine", "The service", "Recorded runs"
OTHERS = "watchkeeper itself"
COMMANDS = (
    ("run", "run", RUNS, "Give a task to an agent and supervise it.", EPILOGUE),
    ("ps", "ps", RUNS, "Which runs there are, and how they stand.", OF_LOOKING),
    ("show", "show", RUNS, "How one run stands, in full.", OF_LOOKING),
    ("tail", "tail", RUNS, "What a run has done, and with -f what it does.", OF_LOOKING),
    ("watch", "watch", RUNS, "A run as it goes on, or all of them.", OF_LOOKING),
    ("wait", "wait", RUNS, "Wait until runs have ended; the exit code is the outcome.", OF_WAITING),
    ("cancel", "cancel", RUNS, "End runs, now or after their turn.", OF_ASKING),
    ("pause", "steering", RUNS, "Hold a run before its next request to the model.", OF_ASKING),
    ("resume", "steering", RUNS, "Let a paused run go on.", OF_ASKING),
    ("steer", "steering", RUNS, "Say something to a run, as its user.", OF_ASKING),
    ("budget", "steering", RUNS, "What a run has spent and may spend; let it spend more.", OF_ASKING),
    ("export", "export", RUNS, "Write a run into a file: facts, report or trace.", OF_LOOKING),
    ("serve", "serve", SERVICE, "Execute runs in worker processes, watched and stopped from anywhere.", OF_SERVING),
    ("stack", "stack", SERVICE, "The workers of the service, and where one of them stands.", OF_SERVICE),
    ("doctor", "doctor", OTHERS, "What is wrong here, and what to do about it.", OF_DOCTOR),
    ("record", "record", RECORDS, "Record what an agent that is not ours and its model say.", OF_RECORDING),
    (
        "replay",
        "replay",
        RECORDS,
        "Judge them: what would have been nudged, blocked, stopped, and when.",
        OF_RECORDINGS,
    ),
    ("stats", "stats", RECORDS, "Say what they did: calls, repeats, failures, what each rule saw.", OF_RECORDINGS),
    ("case", "case", RECORDS, "Make a failing test of one and what should have been done in it.", OF_CASE),
    ("demo", "demo", OTHERS, "Watch four short runs, or with --real a real small model here. Needs no key.", EPILOGUE),
    ("bench", "bench", OTHERS, "Measure the overhead on this machine, beside raw controls and others.", OF_BENCH),
    ("completion", "completion", OTHERS, "Print what a shell needs to complete commands and options.", ""),
)
"""Name, module (its function has that name), the list of the help that it is in, purpose, exit codes."""
GROUPS = (
    (
        "token",
        SERVICE,
        "What lets programs use the service over TCP.",
        (
            ("new", "token", "", "Make a token and print its secret, this once.", OF_TOKENS),
            ("ls", "token", "", "The tokens there are, without their secrets.", OF_TOKENS),
            ("rm", "token", "", "Take a token back.", OF_TOKENS),
        ),
    ),
    (
        "approvals",
        RUNS,
        "The calls, of all runs, that wait for a yes or a no.",
        (
            ("ls", "inbox", "", "The calls that wait for a yes or a no.", OF_LOOKING),
            ("show", "inbox", "", "What is to be run, exactly, and why it is asked about.", OF_LOOKING),
            ("approve", "inbox", "", "Permit a call that waits.", OF_ASKING),
            ("deny", "inbox", "", "Say no to a call that waits.", OF_ASKING),
        ),
    ),
    (
        "config",
        OTHERS,
        "Look at the configuration of service and agents.",
        (
            ("check", "config", "", "Look whether it can be taken, and its agents can be made.", OF_CONFIG),
            ("show", "config", "", "Show every setting as it counts.", OF_CONFIG),
        ),
    ),
)
"""The same of commands that have commands of their own, and these."""
NAMES = frozenset(name for name, *_ in (*COMMANDS, *GROUPS))
