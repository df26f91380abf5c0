-- Forgets a ledger whose fence has gone into the floor. ?1: name.
DELETE FROM ledgers WHERE name = ?1
