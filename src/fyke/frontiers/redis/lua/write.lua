-- Deleting nothing is allowed at full memory, and what follows a first write is, too.
call('HDEL', META, '-')
