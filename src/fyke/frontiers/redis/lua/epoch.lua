if meta[1] ~= ARGV[1] then return redis.error_reply('STALE_EPOCH ' .. (meta[1] or '')) end
