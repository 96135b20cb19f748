package process

import "time"

// Unknown is the processor time of servers that are not on this machine, or belong to
// somebody else.
const Unknown time.Duration = -1

// Usage returns the processor time that this process has taken so far, and that of the
// processes of this machine which listen at addresses, together; Unknown if one of those
// is not found. A server in this process counts as both.
func Usage(addresses []string) (own, servers time.Duration) {
	own = ownTime()
	ids := map[int]bool{}
	for _, address := range addresses {
		id, ok := listener(address)
		if !ok {
			return own, Unknown
		}
		ids[id] = true
	}
	for id := range ids {
		taken, ok := timeOf(id)
		if !ok {
			return own, Unknown
		}
		servers += taken
	}
	return own, servers
}
