-- Reads ledgers in the order of their names. ?1: first name. Answer: names, last fences and bodies.
SELECT name, fence, body FROM ledgers WHERE name >= ?1 ORDER BY name
