package sequence

import (
	"fmt"
	"slices"
	"strings"

	"strandline.dev/internal/record"
)

// holds is the holds of a log, by name; nil if there are none. It is never changed in place, so
// table, sequencer and callers share it.
type holds struct{ list []record.Hold } // not empty

func (h *holds) all() []record.Hold {
	if h == nil {
		return nil
	}
	return h.list
}

func (h *holds) search(name string) (int, bool) {
	return slices.BinarySearchFunc(h.all(), name, func(one record.Hold, name string) int { return strings.Compare(one.Name, name) })
}

// named returns the hold with the given name, or nil.
func (h *holds) named(name string) *record.Hold {
	if i, found := h.search(name); found {
		return &h.list[i]
	}
	return nil
}

func (h *holds) with(one record.Hold) *holds {
	i, found := h.search(one.Name)
	list := slices.Clone(h.all())
	if found {
		list[i] = one
	} else {
		list = slices.Insert(list, i, one)
	}
	return &holds{list}
}

func (h *holds) without(name string) *holds {
	i, found := h.search(name)
	switch {
	case !found:
		return h
	case len(h.list) == 1:
		return nil
	}
	return &holds{slices.Delete(slices.Clone(h.list), i, i+1)}
}

// lowest returns the hold with the lowest offset, or nil if there is none.
func (h *holds) lowest() *record.Hold {
	var lowest *record.Hold
	for i := range h.all() {
		if one := &h.list[i]; lowest == nil || one.Offset < lowest.Offset {
			lowest = one
		}
	}
	return lowest
}

// of returns how many of the holds a principal was the last to set.
func (h *holds) of(principal string) (n int) {
	for i := range h.all() {
		if h.list[i].Principal == principal {
			n++
		}
	}
	return n
}

// crowdedBy reports whether a principal has as many holds as there is room for besides: one has
// half of MaxHolds at most, and the other half is for others. Where rights are not enforced, and
// before a feature level that has principals, no hold has one, and there are no shares.
func (h *holds) crowdedBy(principal string) bool {
	return principal != "" && h.of(principal) >= MaxHolds-len(h.all())
}

func (h *holds) equal(o *holds) bool {
	return h == o || slices.EqualFunc(h.all(), o.all(), sameHold)
}

func sameHold(a, b record.Hold) bool {
	p, q := a.Pointer, b.Pointer
	return a.Name == b.Name && a.Offset == b.Offset && a.Owner == b.Owner && a.Lease == b.Lease &&
		a.MaxBytes == b.MaxBytes && a.MaxAge == b.MaxAge && string(p) == string(q) && a.Principal == b.Principal
}

// bytesOfHold is the approximate memory of a hold in bytes, without its text.
const bytesOfHold = 150

func (h *holds) bytes() (bytes int64) {
	for _, one := range h.all() {
		bytes += bytesOfHold + int64(len(one.Name)+len(one.Owner)+len(one.Pointer)+len(one.Principal))
	}
	return bytes
}

// Holds returns the holds of the log, by name. The caller must not change them; the table does
// not change them either.
func (t *Table) Holds() []record.Hold { return t.log.holds.all() }

// Expiring reports whether one of a log's holds has a lease.
func Expiring(holds []record.Hold) bool {
	return slices.ContainsFunc(holds, func(h record.Hold) bool { return h.Lease > 0 })
}

func (l *logState) setHold(c record.Command) string {
	h, err := record.ParseHoldCommand(c.Text)
	if err != nil {
		return fmt.Sprintf("malformed hold: %v", err)
	}
	h.Offset, h.Lease = c.Offset, c.Lease
	after := l.holds.with(h)
	switch {
	case h.Offset < l.start || h.Offset > l.end:
		return fmt.Sprintf("hold %q at %d of a log [%d, %d)", h.Name, h.Offset, l.start, l.end)
	case h.Lease > MaxHoldLeaseMs || len(after.list) > MaxHolds:
		return fmt.Sprintf("hold %q, with a lease of %d ms, is one of %d", h.Name, h.Lease, len(after.list))
	}
	l.holds = after
	return ""
}

func (l *logState) releaseHold(c record.Command) string {
	if l.holds.named(string(c.Text)) == nil {
		return fmt.Sprintf("the log has no hold %q", c.Text)
	}
	l.holds = l.holds.without(string(c.Text))
	return ""
}

// setHold sets or moves a hold. With FlagFromStart or FlagFromEnd its offset is the current start
// or end of the log, so no trim can intervene.
func (s commands) setHold(c record.Command) Answer {
	h, err := record.ParseHoldCommand(c.Text)
	switch {
	case err != nil:
		return s.refuse(record.Refuse(record.Invalid, "malformed hold: %v", err))
	case c.Flags&record.FlagFromStart != 0:
		c.Offset = s.log.start
	case c.Flags&record.FlagFromEnd != 0:
		c.Offset = s.log.end
	}
	h.Offset, h.Lease = c.Offset, c.Lease
	before := s.log.holds.named(h.Name)
	switch {
	case h.Lease > MaxHoldLeaseMs:
		r := record.Refuse(record.TooLarge, "the lease has %d ms, the limit is %d", h.Lease, MaxHoldLeaseMs)
		r.Limit = MaxHoldLeaseMs
		return s.refuse(r)
	case h.Offset < s.log.start:
		return s.refuse(record.Trimmed(h.Offset, s.log.start, s.log.holds.all()))
	case h.Offset > s.log.end:
		r := record.Refuse(record.OffsetBeyondEnd, "cannot set a hold at offset %d: the log ends at %d", h.Offset, s.log.end)
		r.End = s.log.end
		return s.refuse(r)
	case before == nil && len(s.log.holds.all()) >= MaxHolds:
		r := record.Refuse(record.TooLarge, "the log has %d holds, the limit: release an unused one", MaxHolds)
		r.Limit = MaxHolds
		return s.refuse(r)
	case before == nil && s.log.holds.crowdedBy(h.Principal):
		own := s.log.holds.of(h.Principal)
		r := record.Refuse(record.TooLarge, "the caller has %d holds of this log, and the remaining %d are reserved for others: release an unused one",
			own, MaxHolds-len(s.log.holds.all()))
		r.Limit, r.OwnShare = int64(own), true
		return s.refuse(r)
	case before == nil && s.left == MemoryUsedUp:
		return s.refuse(noMemoryForSessions())
	}
	s.leases.renewHold(h.Name)
	if before != nil && sameHold(*before, h) {
		answer := s.unchanged()
		answer.Start, answer.End = h.Offset, s.log.end
		return answer
	}
	d := s.propose(record.Command{Kind: c.Kind, Offset: h.Offset, Lease: h.Lease, Text: c.Text})
	s.log.holds = s.log.holds.with(h)
	return Answer{RestsOn: d.number, Start: h.Offset, End: s.log.end}
}

// MakesRoom reports whether a command permits records to be trimmed: a trim, the release of a
// hold, or moving a hold towards the end without making it larger.
func (s commands) MakesRoom(c record.Command) bool {
	if c.Kind != record.SetHold {
		return c.Kind == record.Trim || c.Kind == record.ReleaseHold
	}
	h, err := record.ParseHoldCommand(c.Text)
	before := s.log.holds.named(h.Name)
	if err != nil || before == nil || c.Flags&record.FlagFromStart != 0 {
		return false
	}
	if c.Flags&record.FlagFromEnd != 0 {
		c.Offset = s.log.end
	}
	return c.Offset > before.Offset && len(h.Pointer) <= len(before.Pointer) && len(h.Owner) <= len(before.Owner)
}

// releaseHold releases a hold. With FlagBroken, a hold whose offset or bounds differ from those
// in the command is left unchanged: it was set again meanwhile.
func (s commands) releaseHold(c record.Command) Answer {
	seen, broken := record.Hold{Name: string(c.Text)}, c.Flags&record.FlagBroken != 0
	if broken {
		var err error
		if seen, _, err = record.ParseHold(c.Text); err != nil {
			return s.refuse(record.Refuse(record.Invalid, "malformed hold: %v", err))
		}
	}
	name := seen.Name
	h := s.log.holds.named(name)
	switch {
	case h == nil:
		return s.refuse(holdNotFound(name))
	case broken && (h.Offset != c.Offset || h.MaxBytes != seen.MaxBytes || h.MaxAge != seen.MaxAge):
		return s.unchanged()
	}
	d := s.propose(record.Command{Kind: c.Kind, Text: []byte(name), Flags: c.Flags & (record.FlagExpired | record.FlagBroken)})
	s.log.holds = s.log.holds.without(name)
	return Answer{RestsOn: d.number, Start: s.log.start, End: s.log.end}
}

func holdNotFound(name string) *record.Refusal {
	return record.Refuse(record.HoldNotFound, "the log has no hold %q: it was released, expired, broken or never set", name)
}

// held refuses a trim of records that a hold keeps. It returns nil if there is no such hold.
func (s commands) held(before record.Offset) *record.Refusal {
	lowest := s.log.holds.lowest()
	if lowest == nil || before <= lowest.Offset {
		return nil
	}
	r := record.Refuse(record.Held, "hold %q keeps all records from offset %d on", lowest.Name, lowest.Offset)
	r.Hold = lowest
	return r
}

// renewHold restarts the lease of a hold at the last tick.
func (l *leases) renewHold(name string) {
	if l.holds == nil {
		l.holds = make(map[string]int64)
	}
	l.holds[name] = l.elapsed
}

// KeepHold restarts the lease of a hold, as setting it does.
func (s expiry) KeepHold(name string) Answer {
	if !s.leading {
		return Answer{Refusal: notLeader()}
	}
	if s.log.holds.named(name) == nil {
		return s.refuse(holdNotFound(name))
	}
	s.leases.renewHold(name)
	if s.table.log.holds.named(name) == nil {
		return Answer{RestsOn: s.newest()} // the command that set it is in flight
	}
	return Answer{}
}

// ExpiredHolds returns the names of the holds whose leases have run out and whose release is not
// in flight. ExpireHold is due for each of them.
func (s expiry) ExpiredHolds() (expired []string) {
	renewed := s.leases.holds
	for _, h := range s.table.Holds() {
		if h.Lease == 0 || !s.leading {
			continue
		}
		at, known := renewed[h.Name]
		switch now := s.log.holds.named(h.Name); {
		case !known:
			s.leases.renewHold(h.Name) // this leader sees it for the first time
			renewed = s.leases.holds
		case at+int64(h.Lease) <= s.leases.elapsed && now != nil && sameHold(*now, h):
			expired = append(expired, h.Name)
		}
	}
	for name := range renewed {
		if s.log.holds.named(name) == nil {
			delete(renewed, name)
		}
	}
	return expired
}

// ExpireHold releases a hold that ExpiredHolds has returned, unless it was set again since.
func (s expiry) ExpireHold(name string) Answer {
	h := s.log.holds.named(name)
	if !s.leading || h == nil || h.Lease == 0 || s.leases.holds[name]+int64(h.Lease) > s.leases.elapsed {
		return s.unchanged()
	}
	return s.Command(record.Command{Kind: record.ReleaseHold, Flags: record.FlagExpired, Text: []byte(name)})
}
