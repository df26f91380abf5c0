-- Reads one ledger. ?1: name. Answer: no row, or last fence and body.
SELECT fence, body FROM ledgers WHERE name = ?1
