"""What is in the files: tables and indexes, version by version. A statement here is never changed, only followed."""

from __future__ import annotations

from .database import Kind

CONTROL_FILE = "control.db"
WORKERS = "workers"
"""Folder of the workers' files, ``NAME.db`` and ``NAME.lock``."""

CONTROL = Kind(
    "the control file of watchkeeper",
    0x776B6331,  # "wkc1"
    [
        [
            """CREATE TABLE submission (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
               agent TEXT NOT NULL, labels TEXT NOT NULL, submitted REAL NOT NULL, spec BLOB NOT NULL,
               worker TEXT, placed INTEGER NOT NULL DEFAULT 0, over INTEGER NOT NULL DEFAULT 0, standing BLOB,
               facts BLOB)""",
            "CREATE INDEX submission_waiting ON submission (seq) WHERE worker IS NULL AND over = 0",
            "CREATE INDEX submission_open ON submission (worker) WHERE over = 0",
            "CREATE INDEX submission_by_time ON submission (submitted, id) WHERE placed = 0",
            """CREATE TABLE command (seq INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT NOT NULL, run TEXT NOT NULL,
               id TEXT NOT NULL, body BLOB NOT NULL, answer BLOB, UNIQUE (root, id))""",
            """CREATE TABLE budget (name TEXT NOT NULL, dimension TEXT NOT NULL, amount REAL NOT NULL,
               PRIMARY KEY (name, dimension)) WITHOUT ROWID""",
            """CREATE TABLE slice (worker TEXT NOT NULL, budget TEXT NOT NULL, dimension TEXT NOT NULL,
               amount REAL NOT NULL, PRIMARY KEY (budget, dimension, worker)) WITHOUT ROWID""",
            """CREATE TABLE token (hash BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
               created REAL NOT NULL) WITHOUT ROWID""",
        ],
        [
            "DROP TABLE slice",
            """CREATE TABLE slice (run TEXT NOT NULL, budget TEXT NOT NULL, dimension TEXT NOT NULL,
               amount REAL NOT NULL, PRIMARY KEY (budget, dimension, run)) WITHOUT ROWID""",
            "CREATE INDEX slice_by_run ON slice (run)",
        ],
    ],
)

WORKER = Kind(
    "a worker's file of watchkeeper",
    0x776B7731,  # "wkw1"
    [
        [
            """CREATE TABLE run (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, root INTEGER NOT NULL,
               parent TEXT NOT NULL, agent TEXT NOT NULL, labels TEXT NOT NULL, submitted REAL NOT NULL,
               spec BLOB NOT NULL)""",
            "CREATE INDEX run_by_root ON run (root)",
            "CREATE INDEX run_by_time ON run (submitted, id)",
            """CREATE TABLE standing (run INTEGER PRIMARY KEY, change INTEGER NOT NULL, state TEXT NOT NULL, ended REAL,
               first INTEGER NOT NULL DEFAULT 1, body BLOB NOT NULL)""",
            "CREATE INDEX standing_by_change ON standing (change)",
            "CREATE INDEX standing_without_facts ON standing (run) WHERE first > 1",
            """CREATE TABLE lease (root INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, crashes INTEGER NOT NULL,
               worker TEXT NOT NULL, over INTEGER NOT NULL DEFAULT 0)""",
            "CREATE INDEX lease_open ON lease (root) WHERE over = 0",
            """CREATE TABLE chunk (key INTEGER PRIMARY KEY, run INTEGER NOT NULL, first INTEGER NOT NULL,
               last INTEGER NOT NULL, body BLOB NOT NULL)""",
            "CREATE UNIQUE INDEX chunk_by_run ON chunk (run, last)",
            """CREATE TABLE entry (run INTEGER NOT NULL, name TEXT NOT NULL, n INTEGER NOT NULL,
               PRIMARY KEY (run, name)) WITHOUT ROWID""",
            "CREATE TABLE blob (hash BLOB PRIMARY KEY, body BLOB NOT NULL)",
            """CREATE TABLE blob_use (hash BLOB NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (hash, run))
               WITHOUT ROWID""",
            "CREATE INDEX blob_use_by_run ON blob_use (run)",
            """CREATE TABLE charge (budget TEXT NOT NULL, dimension TEXT NOT NULL, amount REAL NOT NULL,
               PRIMARY KEY (budget, dimension)) WITHOUT ROWID""",
        ],
        [
            "DROP TABLE charge",
            """CREATE TABLE charge (root INTEGER NOT NULL, budget TEXT NOT NULL, dimension TEXT NOT NULL,
               amount REAL NOT NULL, PRIMARY KEY (root, budget, dimension)) WITHOUT ROWID""",
        ],
        [
            # The entries of a chunk, as JSON: by its name the number of each. In a table of their own the entries of
            # each run had their own page, and a transaction of 500 runs wrote 500 pages more.
            "ALTER TABLE chunk ADD COLUMN entries TEXT",
            "CREATE INDEX entry_by_number ON entry (run, n)",
            """UPDATE chunk SET entries = (SELECT nullif(json_group_object(name, n), '{}') FROM entry
               WHERE entry.run = chunk.run AND entry.n BETWEEN chunk.first AND chunk.last)""",
            "DROP TABLE entry",
        ],
    ],
)
