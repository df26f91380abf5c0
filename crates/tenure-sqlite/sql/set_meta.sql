-- Sets a value of the whole file. ?1: key, ?2: value.
INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
