-- Parses, rewrites and evaluates arithmetic expressions: small tables that live shortly, and strings.
-- usage: lua5.4 bench/apps/expressions.lua COUNT; prints a digest

if #arg ~= 1 or not arg[1]:match("^[1-9]%d*$") then
    io.stderr:write(("expressions.lua: arguments are '%s'; allowed: one number, 1 or more\n"):format(table.concat(arg, " ")))
    os.exit(2)
end
local state = 7
local function random(limit)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % limit + 1
end

local function write(depth)
    if depth == 0 or random(5) == 1 then
        return random(3) == 1 and "x" or tostring(random(999))
    end
    return "(" .. write(depth - 1) .. ({ "+", "-", "*" })[random(3)] .. write(depth - 1) .. ")"
end

local function parse(text, at)
    if text:sub(at, at) ~= "(" then
        local word = text:match("^%w+", at)
        return { value = word }, at + #word
    end
    local left, right, sign
    left, at = parse(text, at + 1)
    sign = text:sub(at, at)
    right, at = parse(text, at + 1)
    return { sign = sign, left = left, right = right }, at + 1
end

local function evaluate(tree, x)
    if tree.value then
        return tree.value == "x" and x or tonumber(tree.value)
    end
    local left, right = evaluate(tree.left, x), evaluate(tree.right, x)
    if tree.sign == "+" then
        return (left + right) % 1000003
    elseif tree.sign == "-" then
        return (left - right) % 1000003
    end
    return left * right % 1000003
end

local function simplify(tree)
    if tree.value then
        return tree
    end
    local left, right = simplify(tree.left), simplify(tree.right)
    if left.value and right.value and left.value ~= "x" and right.value ~= "x" then
        return { value = tostring(evaluate({ sign = tree.sign, left = left, right = right }, 0)) }
    end
    return { sign = tree.sign, left = left, right = right }
end

local sum, kept = 0, {}
for i = 1, tonumber(arg[1]) do
    local tree = parse(write(7), 1)
    local short = simplify(tree)
    assert(evaluate(tree, i) == evaluate(short, i))
    sum = (sum * 31 + evaluate(short, i)) % 1000000007
    kept[i % 2000] = short
end
print(sum)
