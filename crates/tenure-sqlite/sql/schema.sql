-- The layout, created once in its own transaction; docs/wire/sqlite.md describes it.
CREATE TABLE ledgers (
    name TEXT PRIMARY KEY NOT NULL,
    fence INTEGER NOT NULL,
    body TEXT
) WITHOUT ROWID;

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL,
    value ANY
) WITHOUT ROWID;
