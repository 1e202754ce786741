-- args: lane -> ms until its hold ends
return answer(max(0, held_until(call('HGET', P .. 'hold', args[1])) - now))
