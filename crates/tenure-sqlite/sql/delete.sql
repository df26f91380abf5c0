-- Deletes an idle ledger, whose fence is covered by the floor in meta. ?1: name.
DELETE FROM ledgers WHERE name = ?1
