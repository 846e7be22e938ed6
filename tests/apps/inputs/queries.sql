-- Fixed data, and queries that sort, hash, aggregate and join, with parallel workers and in PL/pgSQL.
create schema work;
set search_path = work;
create table items as
    select i as id, 'item ' || (i * 7919 % 100003) as name, (i % 1000) / 7.0 as weight, md5(i::text) as digest,
           jsonb_build_object('n', i, 'tags', array(select 'tag' || (i % k) from generate_series(2, 6) k)) as document
    from generate_series(1, 60000) i;
create index on items (name);
create index on items using gin (document);
create index on items using hash (digest);
vacuum analyze items;
set max_parallel_workers_per_gather = 4;
set parallel_tuple_cost = 0;
select count(*), round(sum(weight), 3), max(name), min(digest) from items;
select md5(string_agg(name || digest, ',' order by name, id)) from items where id % 3 = 0;
select document -> 'tags' ->> 1 as tag, count(*), sum((document ->> 'n')::bigint) from items group by 1 order by 1;
select count(*) from items where document @> '{"tags": ["tag4"]}';
select sum(r) from (select rank() over (partition by id % 100 order by weight desc, id) as r from items) ranked;
select count(*), sum(a.id) from items a join items b on a.digest > b.digest and a.name = b.name;
select md5(string_agg(word, ' ' order by word)) from (select unnest(regexp_split_to_array(name, ' ')) as word from items) words;
create function collatz(n bigint) returns int language plpgsql as $$
declare steps int := 0;
begin
    while n > 1 loop
        n := case when n % 2 = 0 then n / 2 else 3 * n + 1 end;
        steps := steps + 1;
    end loop;
    return steps;
end $$;
select sum(collatz(i)), max(collatz(i)) from generate_series(1, 3000) i;
set work_mem = '64kB';
select md5(string_agg(digest, '' order by digest desc)) from items;
create materialized view totals as select id % 50 as part, sum(weight) as total, array_agg(id order by id desc) as ids from items group by 1;
select part, round(total, 2), ids[1:3] from totals order by part limit 5;
with recursive walk(n, path) as (select 1, '1' union all select n + 1, path || ',' || (n + 1) from walk where n < 800) select max(length(path)) from walk;
