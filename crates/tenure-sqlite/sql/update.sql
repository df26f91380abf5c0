-- Writes a ledger that has a row. ?1: name, ?2: last fence, ?3: body, NULL when idle.
UPDATE ledgers SET fence = ?2, body = ?3 WHERE name = ?1
