-- The log is the truth: everything else in this database follows from it, but for keys and metadata.
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings BLOB NOT NULL,
    created REAL NOT NULL
);

-- Each experiment numbers its events, from 1 on.
CREATE TABLE events (
    experiment INTEGER NOT NULL REFERENCES experiments (id),
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (experiment, seq)
) WITHOUT ROWID;

-- A learner after an event, without open choices, which are rows of `decisions`.
CREATE TABLE snapshots (
    experiment INTEGER NOT NULL REFERENCES experiments (id),
    seq INTEGER NOT NULL,
    learner BLOB NOT NULL,
    PRIMARY KEY (experiment, seq)
) WITHOUT ROWID;

-- `request` is a digest of the request, `answer` what it was answered, `draw` what it takes to learn from the choice.
-- `due` is when the wait ends, null if it does not or if the choice is closed.
CREATE TABLE decisions (
    experiment INTEGER NOT NULL REFERENCES experiments (id),
    id TEXT NOT NULL,
    made REAL NOT NULL,
    request BLOB NOT NULL,
    answer BLOB NOT NULL,
    draw BLOB NOT NULL,
    state TEXT NOT NULL,
    due REAL,
    value REAL,
    PRIMARY KEY (experiment, id)
) WITHOUT ROWID;
CREATE INDEX decisions_due ON decisions (due) WHERE due IS NOT NULL;

-- The parts of a sum.
CREATE TABLE parts (
    experiment INTEGER NOT NULL,
    decision TEXT NOT NULL,
    key TEXT NOT NULL,
    value REAL NOT NULL,
    late INTEGER NOT NULL,
    PRIMARY KEY (experiment, decision, key)
) WITHOUT ROWID;

-- What callers tell about a decision. It is not part of the log, so that it can be erased.
CREATE TABLE metadata (
    experiment INTEGER NOT NULL,
    decision TEXT NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (experiment, decision)
) WITHOUT ROWID;
CREATE INDEX metadata_at ON metadata (at);

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    prefix TEXT NOT NULL,
    note TEXT NOT NULL,
    created REAL NOT NULL,
    revoked REAL
) WITHOUT ROWID;

-- What the dashboard needs: the secret that signs its sessions, shared by all servers, and probabilities over time.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

-- `span` says how far back a point is kept: minutes, hours, or the whole life, thinned as it grows.
-- `draws` is how many decisions were made up to then, `changed` the round of the last change that was noticed.
CREATE TABLE history (
    experiment INTEGER NOT NULL REFERENCES experiments (id),
    span INTEGER NOT NULL,
    at REAL NOT NULL,
    draws INTEGER NOT NULL,
    open INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    probabilities BLOB NOT NULL,
    PRIMARY KEY (experiment, span, at)
);
