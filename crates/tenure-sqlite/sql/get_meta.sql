-- Reads a value of the whole file. ?1: key. Answer: no row, or the value.
SELECT value FROM meta WHERE key = ?1
