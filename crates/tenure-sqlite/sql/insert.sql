-- Writes a ledger that does not have a row yet. ?1: name, ?2: last fence, ?3: body, NULL when idle.
INSERT INTO ledgers (name, fence, body) VALUES (?1, ?2, ?3)
