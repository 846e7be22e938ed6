-- Tables, strings and coroutines.
local words = {}
for i = 1, 200000 do
  words[i % 50000 + 1] = ("word" .. i * 7919 % 65537):rep(1 + i % 7)
end
table.sort(words)
local sum = 0
for i, word in ipairs(words) do sum = (sum * 31 + #word * i + word:byte(-1)) % 1000003 end
local function numbers(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(("%d"):format(i)) end end) end
local parts = {}
for k = 1, 200 do for text in numbers(200) do parts[#parts + 1] = text end end
print(#words, sum, #table.concat(parts, ","))
