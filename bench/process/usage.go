package process

import "time"

// Unknown is the processor time of servers that are not on this machine, or belong to
// somebody else.
const Unknown time.Duration = -1

// Usage returns a function for the processor time that this process has taken so far, and
// that of the processes of this machine which listen at addresses now, together; Unknown
// if one of those is not found. A server in this process counts as both. To find them
// takes much longer than to call the function.
func Usage(addresses []string) func() (own, servers time.Duration) {
	ids := map[int]bool{}
	for _, address := range addresses {
		id, ok := listener(address)
		if !ok {
			return func() (own, servers time.Duration) { return ownTime(), Unknown }
		}
		ids[id] = true
	}
	return func() (own, servers time.Duration) {
		for id := range ids {
			taken, ok := timeOf(id)
			if !ok {
				return ownTime(), Unknown
			}
			servers += taken
		}
		return ownTime(), servers
	}
}
