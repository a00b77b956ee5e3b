-- Renews the time to live of a document that was used but not changed. The time in its header moves,
-- too, so that nobody renews it again soon. Its version stays, so nobody loses a race to this.
-- KEYS[1] document
-- ARGV[1] version that was read  [2] the header after the version  [3] time to live, ms
-- Returns 1 when renewed, 0 if the document is gone or somebody else wrote it meanwhile.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
redis.call('SETRANGE', KEYS[1], #ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
