PRAGMA journal_mode = MEMORY;
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, weight REAL, payload BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO items SELECT i, 'item ' || (i * 7919 % 60000), i * 0.5, zeroblob(i % 300) FROM n;
CREATE INDEX by_name ON items (name);
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT name || ' of weight ' || weight FROM items WHERE id % 7 = 0;
UPDATE items SET payload = zeroblob(1000 + id % 3000) WHERE id % 5 = 0;
DELETE FROM items WHERE id % 3 = 0;
SELECT count(*), sum(length(payload)), max(name) FROM items;
SELECT count(*) FROM words WHERE words MATCH 'item NOT weight';
SELECT a.name, group_concat(b.id) FROM items a JOIN items b ON a.name = b.name WHERE a.id < 200 GROUP BY a.name;
VACUUM;
PRAGMA integrity_check;
