-- Lua tables of strings and lists, some hundred MiB: all are built, read in random order, and half of them replaced.
-- usage: lua5.4 bench/apps/large_tables.lua COUNT; prints a digest

if #arg ~= 1 or not arg[1]:match("^[1-9]%d*$") then
    io.stderr:write(("large_tables.lua: arguments are '%s'; allowed: one number, 1 or more\n"):format(table.concat(arg, " ")))
    os.exit(2)
end
local count = tonumber(arg[1])
local state = 1
local function random(limit)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % limit + 1
end

local function record(id)
    local list = {}
    for i = 1, 1 + random(12) do
        list[i] = id * i
    end
    return { id = id, name = "name " .. id, text = string.rep("word " .. id % 97 .. " ", random(20)), list = list }
end

local records, by_name = {}, {}
for id = 1, count do
    records[id] = record(id)
    by_name[records[id].name] = records[id]
end

local sum = 0
for _ = 1, count do
    local found = by_name["name " .. random(count)]
    sum = (sum + #found.text + found.list[#found.list]) % 1000000007
end
for _ = 1, count // 2 do
    local id = random(count)
    records[id] = record(id)
    by_name[records[id].name] = records[id]
    sum = (sum + #records[random(count)].text) % 1000000007
end
print(sum)
