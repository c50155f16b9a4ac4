-- A file of results, reports/<adapter>.db. docs/results.md explains the tables, with queries.

-- A run of an adapter. `ended` is null while it runs, and if it was killed; `interrupted` says what ended
-- it early. `selection` are the options that chose among the cases. Mappings and lists are JSON.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    adapter TEXT NOT NULL,
    suite TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    interrupted TEXT NOT NULL,
    cases TEXT NOT NULL,
    selection TEXT NOT NULL,
    implementation TEXT NOT NULL,
    shard TEXT NOT NULL,
    variants TEXT NOT NULL,
    versions TEXT NOT NULL,
    disciplines TEXT NOT NULL,
    accuracy TEXT NOT NULL,
    limits TEXT NOT NULL
) STRICT;

-- Wall time of each stage, a row for each process.
CREATE TABLE stage (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    seconds REAL NOT NULL
) STRICT;

-- A case on a variant that the run was to judge; `outcome` is null until it is judged. `seconds` are those
-- of observing. `resolution` are bytes below which differences in retained memory are not visible. `unobserved`
-- (JSON) names the checks that could not be observed, and why.
CREATE TABLE pair (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    case_id TEXT NOT NULL,
    variant TEXT NOT NULL,
    outcome TEXT,
    program TEXT NOT NULL DEFAULT '',
    seconds REAL,
    resolution INTEGER,
    unobserved TEXT,
    UNIQUE (run_id, case_id, variant)
) STRICT;

-- The verdict of a check. `facts` (JSON) is what the message is made from. `cause`, `reason`, `url`,
-- `kind` and `instead` are those of the known deviation that explains it, and null where none does.
CREATE TABLE verdict (
    pair_id INTEGER NOT NULL REFERENCES pair (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    check_name TEXT NOT NULL,
    status TEXT NOT NULL,
    level TEXT NOT NULL,
    message TEXT NOT NULL,
    expected TEXT NOT NULL,
    observed TEXT NOT NULL,
    method TEXT NOT NULL,
    facts TEXT NOT NULL,
    cause TEXT,
    reason TEXT,
    url TEXT,
    kind TEXT,
    instead TEXT,
    PRIMARY KEY (pair_id, position)
) STRICT, WITHOUT ROWID;

-- What was measured. `quantity` is `executions` (of a statement in a region and a phase; an empty
-- statement is the region as a whole), `retained bytes`, `peak bytes`, `random state bytes` or
-- `random state copies`.
CREATE TABLE number (
    pair_id INTEGER NOT NULL REFERENCES pair (id) ON DELETE CASCADE,
    run TEXT NOT NULL CHECK (run IN ('plain', 'recomputed')),
    quantity TEXT NOT NULL,
    region TEXT NOT NULL DEFAULT '',
    statement TEXT NOT NULL DEFAULT '',
    phase TEXT NOT NULL DEFAULT '',
    value INTEGER NOT NULL
) STRICT;

-- What a run gave or the reference expects, as JSON: outputs, losses, gradients, parameters, state, an
-- error. An array is the number of a row of `array`.
CREATE TABLE content (
    pair_id INTEGER NOT NULL REFERENCES pair (id) ON DELETE CASCADE,
    run TEXT NOT NULL CHECK (run IN ('plain', 'recomputed', 'expected')),
    json TEXT NOT NULL,
    PRIMARY KEY (pair_id, run)
) STRICT, WITHOUT ROWID;

-- Arrays, each once: the elements little-endian in C order, compressed by zlib.
CREATE TABLE array (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    elements BLOB NOT NULL
) STRICT;

CREATE TABLE array_of_pair (
    pair_id INTEGER NOT NULL REFERENCES pair (id) ON DELETE CASCADE,
    array_id INTEGER NOT NULL REFERENCES array (id),
    PRIMARY KEY (pair_id, array_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX number_of_pair ON number (pair_id);
CREATE INDEX pair_of_array ON array_of_pair (array_id);
