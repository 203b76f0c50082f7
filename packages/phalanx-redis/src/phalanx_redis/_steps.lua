-- A tuple space in Redis or Valkey. One call of this script is one atomic step.
--
-- A field is the bytes of phalanx's encoding: equal values are equal bytes, the first byte is the kind. A template is a
-- pattern for each field: "=" and the field's bytes (an actual), "*" (any), "t" and the first bytes that may be
-- (a type), "a" with an array's number of dimensions (255: any) and dtype ("": any), "c" and a class's name, "n" and
-- the patterns of a nested tuple, each with its length before it.
--
-- Of a space whose keys begin with S (all in one slot of a cluster, for S is in braces):
--   S:id            the number of the last tuple or waiter
--   S:t             number -> its fields
--   S:m             number -> its key, labels (none or one) and priority, if it has any
--   S:k             key -> number
--   S:n             what was done so far, for `info`
--   S:x             numbers by when their lease ends
--   S:a:<n>         numbers of all tuples of n fields
--   S:l:<label>     those with a label
--   S:i:<n>:<p>:<f> those whose field at p is f: so a template with actuals looks at few tuples
--   S:w             waiter -> what it waits for
--   S:v:…           as S:a and S:i, but of waiters
--   S:b:<waiter>    a list by which it is woken
local S, operation, now = KEYS[1], ARGV[1], nil
local leased = false -- whether any tuple has a lease
local LONGEST, PAGE = 40, 128 -- a longer field is indexed by its digest; tuples looked at between two questions

local function call(...) return redis.call(...) end

local function milliseconds()
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now
end

local function count_up(what, by) call('HINCRBY', S .. ':n', what, by) end

local function size(fields)
  local bytes = 1
  for _, field in ipairs(fields) do bytes = bytes + #field end
  return bytes
end

-- The name of the index for a field, or nil for kinds that are compared only (arrays, lists and the like).
local function indexed(kind, count, at, field)
  if field:byte(1) > 7 then return nil end
  if #field > LONGEST then field = redis.sha1hex(field) end
  return S .. kind .. count .. ':' .. at .. ':' .. field
end

-- Parts of the encoding: a number of varying length at `at`, and where it ends.
local function varint(bytes, at)
  local value, scale = 0, 1
  while true do
    local byte = bytes:byte(at)
    at = at + 1
    if byte < 128 then return value + byte * scale, at end
    value = value + (byte - 128) * scale
    scale = scale * 128
  end
end

local skip -- where the field at `at` ends

local function skip_many(bytes, at, count)
  for _ = 1, count do at = skip(bytes, at) end
  return at
end

local function skip_text(bytes, at)
  local length, start = varint(bytes, at)
  return start + length
end

local function skip_names(bytes, at)
  local count, start = varint(bytes, at)
  for _ = 1, count do start = skip_text(bytes, start) end
  return start
end

skip = function(bytes, at)
  local kind, count = bytes:byte(at), nil
  at = at + 1
  if kind <= 2 then return at end
  if kind == 3 then return select(2, varint(bytes, at)) end
  if kind == 5 then return at + 8 end
  if kind == 4 or kind == 6 or kind == 7 then return skip_text(bytes, at) end
  if kind == 8 then
    count, at = varint(bytes, skip_text(bytes, at))
    for _ = 1, count do at = select(2, varint(bytes, at)) end
    return skip_text(bytes, at)
  end
  if kind == 9 or kind == 10 then
    count, at = varint(bytes, at)
    return skip_many(bytes, at, count)
  end
  if kind == 11 then
    count, at = varint(bytes, skip_names(bytes, at))
    for _ = 1, count do at = skip(bytes, skip_text(bytes, at)) end
    return at
  end
  if kind == 12 then return skip_text(bytes, skip_names(bytes, at)) end
  return skip_text(bytes, at + 16)
end

local function split_tuple(field)
  local count, at = varint(field, 2)
  local parts = {}
  for number = 1, count do
    local next = skip(field, at)
    parts[number] = field:sub(at, next - 1)
    at = next
  end
  return parts
end

local function split_patterns(pattern)
  local parts, at = {}, 2
  while at <= #pattern do
    local length = struct.unpack('<I4', pattern, at)
    parts[#parts + 1] = pattern:sub(at + 4, at + 3 + length)
    at = at + 4 + length
  end
  return parts
end

local function has_class(field, class)
  local kind = field:byte(1)
  if kind ~= 11 and kind ~= 12 then return false end
  local count, at = varint(field, 2)
  for _ = 1, count do
    local length, start = varint(field, at)
    at = start + length
    if field:sub(start, at - 1) == class then return true end
  end
  return false
end

local function is_array(field, dimensions, dtype)
  if field:byte(1) ~= 8 then return false end
  local length, at = varint(field, 2)
  if dtype ~= '' and field:sub(at, at + length - 1) ~= dtype then return false end
  return dimensions == 255 or varint(field, at + length) == dimensions
end

local matches

local function matches_field(pattern, field)
  local kind = pattern:sub(1, 1)
  if kind == '*' then return true end
  if kind == '=' then return #pattern == #field + 1 and pattern:sub(2) == field end
  if kind == 't' then return pattern:find(field:sub(1, 1), 2, true) ~= nil end
  if kind == 'c' then return has_class(field, pattern:sub(2)) end
  if kind == 'a' then return is_array(field, pattern:byte(2), pattern:sub(3)) end
  return field:byte(1) == 9 and matches(split_patterns(pattern), split_tuple(field))
end

matches = function(patterns, fields)
  if #patterns ~= #fields then return false end
  for at = 1, #patterns do
    if not matches_field(patterns[at], fields[at]) then return false end
  end
  return true
end

local function tuple_of(number)
  local packed = call('HGET', S .. ':t', number)
  return packed and cmsgpack.unpack(packed)
end

local function marks_of(number)
  local packed = call('HGET', S .. ':m', number)
  return packed and cmsgpack.unpack(packed) or {labels = {}, priority = 0}
end

local function has(list, wanted)
  for _, one in ipairs(list) do
    if one == wanted then return true end
  end
  return false
end

-- Whether its marks are those that the selectors name.
local function selected(select, marks)
  if select.key and select.key ~= marks.key then return false end
  for _, label in ipairs(select.labels) do
    if not has(marks.labels, label) then return false end
  end
  return true
end

local function remove(number, fields)
  local count = #fields
  count_up('encoded_bytes', -size(fields))
  call('HDEL', S .. ':t', number)
  call('ZREM', S .. ':a:' .. count, number)
  for at = 1, count do
    local index = indexed(':i:', count, at, fields[at])
    if index then call('ZREM', index, number) end
  end
  call('ZREM', S .. ':x', number)
  if call('HEXISTS', S .. ':m', number) == 1 then
    local marks = marks_of(number)
    if marks.key then call('HDEL', S .. ':k', marks.key) end
    for _, label in ipairs(marks.labels) do call('ZREM', S .. ':l:' .. label, number) end
    call('HDEL', S .. ':m', number)
  end
end

local function remove_one(number)
  remove(number, tuple_of(number))
  count_up('expired', 1)
end

-- Some of those whose lease has ended, so that no call takes long. Those that are left are not there for anybody.
local function remove_ended()
  leased = call('EXISTS', S .. ':x') == 1
  if not leased then return end
  for _, number in ipairs(call('ZRANGEBYSCORE', S .. ':x', '-inf', milliseconds(), 'LIMIT', 0, PAGE)) do
    remove_one(number)
  end
end

local function has_ended(number)
  local ends = leased and call('ZSCORE', S .. ':x', number)
  return ends and tonumber(ends) <= milliseconds()
end

local function key_is_taken(key)
  local number = call('HGET', S .. ':k', key)
  if number and has_ended(number) then
    remove_one(number)
    return false
  end
  return number
end

-- The smallest set of tuples, or of waiters' like, in which all that match must be.
local function candidates(patterns, select)
  local count, best, least = #patterns, S .. ':a:' .. #patterns, nil
  local function consider(set)
    local count = call('ZCARD', set)
    if not least or count < least then best, least = set, count end
  end
  for at, pattern in ipairs(patterns) do
    if pattern:sub(1, 1) == '=' and least ~= 0 then
      local index = indexed(':i:', count, at, pattern:sub(2))
      if index then consider(index) end
    end
  end
  for _, label in ipairs(select.labels) do consider(S .. ':l:' .. label) end
  return best
end

-- Calls `visit(number, fields, marks)` for each that matches, in order, until it returns true.
local function each(patterns, select, after, visit)
  if select.key then
    local number = call('HGET', S .. ':k', select.key)
    local fields = number and tuple_of(number)
    if fields and tonumber(number) > after and matches(patterns, fields) and selected(select, marks_of(number))
      and not has_ended(number) then
      visit(tonumber(number), fields)
    end
    return
  end
  local set, marked = candidates(patterns, select), #select.labels > 0
  local command, from, to = 'ZRANGEBYSCORE', '(' .. after, '+inf'
  if select.order == 'lifo' then command, from, to = 'ZREVRANGEBYSCORE', after > 0 and '(' .. after or '+inf', '(0' end
  -- The first ones are asked for alone: most questions end there.
  local page = 2
  while true do
    local numbers, in_vain = call(command, set, from, to, 'LIMIT', 0, page), 0
    for _, number in ipairs(numbers) do
      local fields = tuple_of(number)
      if fields and matches(patterns, fields) and (not marked or selected(select, marks_of(number)))
        and not has_ended(number) then
        if visit(tonumber(number), fields) then return end
      else
        in_vain = in_vain + 1
      end
    end
    if in_vain > 0 then count_up('looked_at', in_vain) end
    if #numbers < page then return end
    from, page = '(' .. numbers[#numbers], PAGE
  end
end

local function find(patterns, select)
  local found, fields_found, highest
  each(patterns, select, 0, function(number, fields)
    if select.order ~= 'priority' then
      found, fields_found = number, fields
      return true
    end
    local priority = marks_of(number).priority
    if not highest or priority > highest then found, fields_found, highest = number, fields, priority end
  end)
  return found, fields_found
end

local function got(number, fields, take)
  if take then remove(number, fields) end
  count_up(take and 'takes' or 'reads', 1)
end

-- Waiters: woken in the order in which they came, all readers but one taker for each tuple.

local function waiting_place(patterns)
  local count = #patterns
  for at = count, 1, -1 do -- what comes last tells tuples apart better than what comes first, their name
    if patterns[at]:sub(1, 1) == '=' then
      local index = indexed(':v:', count, at, patterns[at]:sub(2))
      if index then return index end
    end
  end
  return S .. ':v:' .. count
end

local function leave(waiter)
  local packed = call('HGET', S .. ':w', waiter)
  if packed then
    call('ZREM', cmsgpack.unpack(packed).place, waiter)
    call('HDEL', S .. ':w', waiter)
  end
end

-- The fields in one string, each with its length before it.
local function joined(fields)
  local parts = {}
  for at, field in ipairs(fields) do parts[at] = struct.pack('<I4', #field) .. field end
  return table.concat(parts)
end

-- A reader is sent the tuple, which somebody may take before it could ask again; a taker has to come and take it, so
-- that one who has died takes nothing.
local function wake(fields, marks)
  if call('EXISTS', S .. ':w') == 0 then return end
  local count, waiters = #fields, call('ZRANGE', S .. ':v:' .. #fields, 0, -1)
  for at = 1, count do
    local index = indexed(':v:', count, at, fields[at])
    for _, waiter in ipairs(index and call('ZRANGE', index, 0, -1) or {}) do waiters[#waiters + 1] = waiter end
  end
  table.sort(waiters, function(one, other) return tonumber(one) < tonumber(other) end)
  local taken = false
  for _, waiter in ipairs(waiters) do
    local wanted = cmsgpack.unpack(call('HGET', S .. ':w', waiter))
    if wanted.ends < milliseconds() then
      leave(waiter)
    elseif not (wanted.take and taken) and matches(wanted.patterns, fields) and selected(wanted.select, marks) then
      taken = taken or wanted.take
      leave(waiter)
      call('RPUSH', S .. ':b:' .. waiter, wanted.take and '' or joined(fields))
      call('PEXPIRE', S .. ':b:' .. waiter, 60000)
    end
  end
end

local function put(number, fields, marks, ends)
  local count = #fields
  call('HSET', S .. ':t', number, cmsgpack.pack(fields))
  call('ZADD', S .. ':a:' .. count, number, number)
  for at = 1, count do
    local index = indexed(':i:', count, at, fields[at])
    if index then call('ZADD', index, number, number) end
  end
  if marks.key or #marks.labels > 0 or marks.priority ~= 0 then
    call('HSET', S .. ':m', number, cmsgpack.pack(marks))
    if marks.key then call('HSET', S .. ':k', marks.key, number) end
    for _, label in ipairs(marks.labels) do call('ZADD', S .. ':l:' .. label, number, number) end
  end
  if ends then call('ZADD', S .. ':x', ends, number) end
  count_up('encoded_bytes', size(fields))
  wake(fields, marks)
end

-- What is needed to put a tuple back where it was.
local function token(number) return cmsgpack.pack({number, marks_of(number), call('ZSCORE', S .. ':x', number)}) end

-- The arguments: what they say, from `at` on.

local function read_list(at)
  local list, count = {}, tonumber(ARGV[at])
  for number = 1, count do list[number] = ARGV[at + number] end
  return list, at + count + 1
end

local function read_key(at)
  local keys, next = read_list(at)
  return keys[1], next
end

local function read_select(at)
  local select = {order = ARGV[at]}
  select.key, at = read_key(at + 1)
  select.labels, at = read_list(at)
  return select, at
end

remove_ended()

if operation == 'out' then
  local lease, marks, at = tonumber(ARGV[2]), {priority = tonumber(ARGV[3])}, nil
  marks.key, at = read_key(4)
  marks.labels, at = read_list(at)
  if marks.key and key_is_taken(marks.key) then return redis.error_reply('KEYTAKEN') end
  local fields, number
  while ARGV[at] do
    fields, at = read_list(at)
    number = call('INCR', S .. ':id')
    put(number, fields, marks, lease >= 0 and milliseconds() + lease)
    count_up('outs', 1)
  end
  return number
end

-- A tuple that was taken and that nobody read. Its key may be another one's by now.
if operation == 'back' then
  local number, marks, ends = unpack(cmsgpack.unpack(ARGV[2]))
  if marks.key and key_is_taken(marks.key) then marks.key = nil end
  put(number, read_list(3), marks, ends)
  count_up('takes', -1)
  return true
end

if operation == 'get' then
  local select, at = read_select(3)
  local number, fields = find(read_list(at), select)
  if not number then return false end
  got(number, fields, ARGV[2] == '1')
  return fields
end

if operation == 'wait' then
  local take, waiter, ends = ARGV[2] ~= '0', ARGV[3], tonumber(ARGV[4])
  local select, at = read_select(5)
  local patterns = read_list(at)
  local number, fields = find(patterns, select)
  leave(waiter)
  if number then
    local known = take and ARGV[2] == 'back' and token(number)
    got(number, fields, take)
    return known and {known, unpack(fields)} or fields
  end
  if waiter == '0' then waiter = call('INCR', S .. ':id') end
  local place = waiting_place(patterns)
  local wanted = {take = take, select = select, patterns = patterns, place = place, ends = milliseconds() + ends}
  call('HSET', S .. ':w', waiter, cmsgpack.pack(wanted))
  call('ZADD', place, waiter, waiter)
  return tonumber(waiter)
end

if operation == 'leave' then
  leave(ARGV[2])
  call('DEL', S .. ':b:' .. ARGV[2])
  return true
end

if operation == 'page' then
  local limit, after, room = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local select, at = read_select(6)
  local numbers, tuples = {}, {}
  each(read_list(at), select, after, function(number, fields)
    numbers[#numbers + 1], tuples[#tuples + 1] = number, fields
    for _, field in ipairs(fields) do room = room - #field end
    return #numbers >= limit or room <= 0
  end)
  for place, number in ipairs(numbers) do got(number, tuples[place], ARGV[2] == '1') end
  return {(#numbers >= limit or room <= 0) and numbers[#numbers] or 0, tuples}
end

if operation == 'count' then
  local patterns = read_list(2)
  local everything = true
  for _, pattern in ipairs(patterns) do everything = everything and pattern == '*' end
  if everything and not leased then return call('ZCARD', S .. ':a:' .. #patterns) end
  local count = 0
  each(patterns, {labels = {}}, 0, function() count = count + 1 end)
  return count
end

if operation == 'renew' then
  local number, lease = ARGV[2], tonumber(ARGV[3])
  local fields = tuple_of(number)
  if not fields or has_ended(number) then return 0 end
  if lease == 0 then
    remove(number, fields)
  elseif lease < 0 then
    call('ZREM', S .. ':x', number)
  else
    call('ZADD', S .. ':x', milliseconds() + lease, number)
  end
  return 1
end

if operation == 'info' then
  local takers, readers = 0, 0
  for _, packed in ipairs(call('HVALS', S .. ':w')) do
    if cmsgpack.unpack(packed).take then takers = takers + 1 else readers = readers + 1 end
  end
  local bytes = redis.pcall('MEMORY', 'USAGE', S .. ':t') -- Valkey and Redis have it; a server that is like them may not
  local ended = leased and call('ZCOUNT', S .. ':x', '-inf', milliseconds()) or 0
  return {call('HLEN', S .. ':t') - ended, takers, readers, type(bytes) == 'number' and bytes or 0, call('HGETALL', S .. ':n')}
end

return redis.error_reply('no such operation')
