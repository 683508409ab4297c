"""What has to happen in Redis at one stroke, in its own language.

``KEYS`` are always info, log and running, as in ``redis_layout``; the first argument is the stream's id. All times are
Redis' own, in milliseconds, so that clocks of different machines do not matter.
"""

from __future__ import annotations

__all__ = ["ASK_END", "BURY", "CLAIM", "END", "NOTE", "OVERDUE", "RENEW"]

_NOW = """
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function newest()
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  if not last then return 0, 0 end
  return tonumber(last[1]:match('%-(%d+)$')), tonumber(last[2][1]:match('%d+$'))
end
local function hold(owner, lease, takeover, keep)
  local ends = now() + lease
  redis.call('HSET', KEYS[1], 'owner', owner, 'lease', ends)
  redis.call('ZADD', KEYS[3], ends + takeover, ARGV[1])
  redis.call('PEXPIRE', KEYS[1], keep + takeover)
  redis.call('PEXPIRE', KEYS[2], keep + takeover)
end
local function finish(term, id, field, outcome, keep)
  redis.call('XADD', KEYS[2], id, field, outcome)
  redis.call('HSET', KEYS[1], 'outcome', outcome, 'owner', '', 'term', term)
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], keep)
  redis.call('PEXPIRE', KEYS[2], keep)
end
"""

#: id, owner, "open" or "take", lease, keep, takeover, term, number, finals, session, inbox, (field, value)…
#: An owner that opens again, because Redis has forgotten the stream or the lease ran out, gets it back.
CLAIM = (
    _NOW
    + """
local info = redis.call('HMGET', KEYS[1], 'term', 'owner', 'outcome', 'lease', 'takeover')
local term, owner, outcome = tonumber(info[1]), info[2], info[3]
local takeover = tonumber(info[5] or ARGV[6])
local number, finals = tonumber(ARGV[8]), tonumber(ARGV[9])
local opens = ARGV[3] == 'open'
if outcome then return {'ended'} end
if term and opens and owner ~= ARGV[2] then return {'owned'} end
if not opens then
  if not term then return {'unknown'} end
  if tonumber(info[4]) > now() and owner ~= ARGV[2] then return {'owned'} end
  term = term + 1
  number, finals = newest()
end
term = term or tonumber(ARGV[7])
redis.call('HSET', KEYS[1], 'term', term, 'takeover', takeover, 'inbox', ARGV[11])
if opens then redis.call('HSET', KEYS[1], 'session', ARGV[10]) end
for at = 12, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
if not opens or redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('XADD', KEYS[2], term .. '-' .. number, 'o' .. finals, '')
end
hold(ARGV[2], tonumber(ARGV[4]), takeover, tonumber(ARGV[5]))
local kept = redis.call('HMGET', KEYS[1], 'session', 'saved', 'snapshot')
return {'ok', term, number, finals, kept[1] or '', kept[2] or '', kept[3] or ''}
"""
)

#: id, owner, lease, keep: what became of the stream: ok, cancel, owned, ended or gone.
RENEW = (
    _NOW
    + """
local info = redis.call('HMGET', KEYS[1], 'owner', 'outcome', 'cancel', 'takeover')
if info[2] then return 'ended' end
if not info[1] then return 'gone' end
if info[1] ~= ARGV[2] then return 'owned' end
hold(ARGV[2], tonumber(ARGV[3]), tonumber(info[4]), tonumber(ARGV[4]))
return info[3] and 'cancel' or 'ok'
"""
)

#: id, owner, (field, value)…: keep something about the stream, if it is still the owner's.
NOTE = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return 'gone' end
for at = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
return 'ok'
"""

#: id, owner, term, entry's id, field, outcome, keep
END = (
    _NOW
    + """
local info = redis.call('HMGET', KEYS[1], 'owner', 'outcome')
if info[2] then return 'ended' end
if not info[1] or redis.call('EXISTS', KEYS[2]) == 0 then return 'gone' end
if info[1] ~= ARGV[2] then return 'owned' end
finish(ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]))
return 'ok'
"""
)

#: id, outcome, keep: end a stream whose producer is dead, and that nobody has taken over in time.
BURY = (
    _NOW
    + """
local info = redis.call('HMGET', KEYS[1], 'term', 'outcome')
if not info[1] or info[2] then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return 'gone'
end
local given_up = redis.call('ZSCORE', KEYS[3], ARGV[1])
if given_up and tonumber(given_up) > now() then return 'alive' end
local number, finals = newest()
local term = info[1] + 1
finish(term, term .. '-' .. (number + 1), 'z' .. finals, ARGV[2], tonumber(ARGV[3]))
return 'ok'
"""
)

#: -, how many: streams that are given up.
OVERDUE = _NOW + "return redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now(), 'LIMIT', 0, ARGV[2])"

#: id: note that somebody wishes the end, and give the inbox of the owner.
ASK_END = """
local info = redis.call('HMGET', KEYS[1], 'inbox', 'outcome')
if not info[1] or info[2] then return false end
redis.call('HSET', KEYS[1], 'cancel', '1')
return info[1]
"""
