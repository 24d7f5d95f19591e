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
