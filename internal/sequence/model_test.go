package sequence

import (
	"strings"

	"strandline.dev/internal/record"
)

// model is a log so naive that it is plainly right: a list of events, and every
// decision replays them all. It knows nothing of overlays, spans or undoing;
// to drop proposals it cuts its list.
type model struct {
	events   []event
	numbered uint64
	open     uint64 // number that takes more batches, 0 if none
}

// event is a batch or a command that was accepted.
type event struct {
	number    uint64
	committed bool
	command   *record.Command // nil: a batch
	request   *Append         // of the batch
	first     record.Sequence // of the batch
	count     int
	keys      []string // of the batch; "": the record has none
}

// world is what the events add up to.
type world struct {
	start, end record.Offset
	writerTerm record.WriterTerm
	sealed     bool
	fenced     bool
	sessions   map[record.SessionID]*person
	holds      map[string]record.Offset
	writer     string                   // has the writer lease; "": nobody
	keys       map[record.Offset]string // of records that have one
}

// held is where the lowest hold is.
func (w *world) held() record.Offset {
	held := MaxFastForward
	for _, at := range w.holds {
		held = min(held, at)
	}
	return held
}

type person struct {
	open, implicit bool
	committed      bool         // its beginning is
	from           record.Epoch // the epoch it began in
	epoch          record.Epoch
	next           map[record.Epoch]record.Sequence
	low            map[record.Epoch]record.Sequence // of committed appends
	at             map[place]home
	// resolved is what Resolve counts on: the same from committed events alone.
	resolvedOpen  bool
	resolvedEpoch record.Epoch
}

type place struct {
	epoch    record.Epoch
	sequence record.Sequence
}

type home struct {
	offset record.Offset
	number uint64 // 0: committed
}

func (m *model) world() world {
	w := world{sessions: map[record.SessionID]*person{}, holds: map[string]record.Offset{}, keys: map[record.Offset]string{}}
	for _, e := range m.events {
		if e.command != nil {
			w.obey(e)
		} else {
			w.take(e)
		}
	}
	return w
}

func (w *world) begin(id record.SessionID, e event, implicit bool) *person {
	p := &person{
		implicit: implicit,
		next:     map[record.Epoch]record.Sequence{}, low: map[record.Epoch]record.Sequence{}, at: map[place]home{},
	}
	w.sessions[id] = p
	p.set(true, 0, e)
	return p
}

func (p *person) set(open bool, epoch record.Epoch, e event) {
	p.open, p.epoch = open, epoch
	if e.committed {
		p.committed, p.resolvedOpen, p.resolvedEpoch = true, open, epoch
	}
}

func (w *world) obey(e event) {
	c := e.command
	p := w.sessions[c.Session]
	switch c.Kind {
	case record.OpenSession:
		w.begin(c.Session, e, false)
	case record.CloseSession, record.ExpireSession:
		p.set(false, p.epoch, e)
	case record.EndEpoch:
		p.set(true, c.Epoch+1, e)
	case record.AcquireWriter:
		w.writerTerm, w.writer = c.WriterTerm, ""
	case record.LeaseWriter:
		wanted, _ := record.ParseWriter(c.Text)
		w.writerTerm, w.writer = c.WriterTerm, wanted.Name
	case record.ReleaseWriter:
		w.writer = ""
	case record.Trim:
		w.start, w.end = max(w.start, c.Offset), max(w.end, c.Offset)
	case record.SetHold:
		h, _, _ := record.ParseHold(c.Text)
		w.holds[h.Name] = c.Offset
	case record.ReleaseHold:
		delete(w.holds, string(c.Text))
	case record.Seal:
		w.sealed = true
	case record.Fence:
		w.fenced = c.Flags&record.FlagFenced != 0
	}
}

func (w *world) take(e event) {
	a := e.request
	if a.Session != 0 {
		p := w.sessions[a.Session]
		if p == nil {
			p = w.begin(a.Session, e, true)
			p.from = a.Epoch
		}
		p.set(true, a.Epoch, e)
		number := e.number
		if e.committed {
			number = 0
			if !a.Implicit {
				p.low[a.Epoch] = max(p.low[a.Epoch], a.LowWater)
			}
		}
		for i := range e.count {
			p.at[place{a.Epoch, e.first + record.Sequence(i)}] = home{w.end + record.Offset(i), number}
		}
		p.next[a.Epoch] = e.first + record.Sequence(e.count)
	}
	for i, key := range e.keys {
		if key != "" {
			w.keys[w.end+record.Offset(i)] = key
		}
	}
	w.end += record.Offset(e.count)
}

// decideCheck decides a check by all records since ever. A sequencer knows their keys from an
// offset on.
func (w *world) decideCheck(c *Check, from record.Offset) record.Reason {
	switch {
	case c.Since > w.end:
		return record.OffsetBeyondEnd
	case c.Search.Found != nil:
		return record.Conflict
	case max(c.Since, c.Search.To) < from && c.Search.Lacked != "":
		return record.Busy
	case max(c.Since, c.Search.To) < from:
		return record.CheckTooOld
	}
	for o, key := range w.keys {
		if o < max(c.Since, c.Search.To) {
			continue
		}
		for _, k := range c.keys {
			if key == string(k) {
				return record.Conflict
			}
		}
		for _, p := range c.prefixes {
			if strings.HasPrefix(key, string(p)) {
				return record.Conflict
			}
		}
	}
	return 0
}

func (m *model) newest() uint64 {
	for i := len(m.events) - 1; i >= 0; i-- {
		if !m.events[i].committed {
			return m.events[i].number
		}
	}
	return 0
}

// verdict is an Answer, record by record.
type verdict struct {
	reason    record.Reason
	offsets   []record.Offset
	restsOn   uint64
	duplicate bool
}

func (m *model) refuse(v verdict, r record.Reason) verdict {
	v.reason, v.restsOn = r, m.newest()
	return v
}

// append decides a request of batches that each hold `count` records. The sequencer has kept keys
// from an offset on; below 0: it has kept none.
func (m *model) append(a *Append, from record.Offset) verdict {
	w := m.world()
	var v verdict
	first, batches := a.First, a.Batches
	if a.Session != 0 {
		p := w.sessions[a.Session]
		if !a.Implicit && a.LowWater > a.First {
			return m.refuse(v, record.Invalid)
		}
		if p == nil && (!a.Implicit || a.First != 0) {
			return m.refuse(v, record.SessionNotFound)
		}
		if p != nil {
			if p.implicit != a.Implicit {
				return m.refuse(v, record.Invalid)
			}
			done := 0
			for ; done < a.Records && first < p.next[a.Epoch]; done++ {
				h := p.at[place{a.Epoch, first}]
				if first < p.low[a.Epoch] {
					v.offsets = nil
					return m.refuse(v, record.OutcomeForgotten)
				}
				v.offsets = append(v.offsets, h.offset)
				v.restsOn = max(v.restsOn, h.number)
				first++
			}
			size := a.Batches[0].Count()
			if done == a.Records {
				v.duplicate = true
				return v
			}
			if done%size != 0 {
				return m.refuse(v, record.SequenceGap)
			}
			if a.Atomic && done > 0 {
				return m.refuse(v, record.Invalid)
			}
			batches = batches[done/size:]
			switch {
			case a.Epoch < p.epoch:
				return m.refuse(v, record.StaleEpoch)
			case !p.open && (!p.implicit || a.Epoch == p.epoch):
				return m.refuse(v, record.SessionExpired)
			case first != p.next[a.Epoch]:
				return m.refuse(v, record.SequenceGap)
			}
		}
	}
	switch {
	case a.WriterTerm > w.writerTerm:
		return m.refuse(v, record.Invalid)
	case a.WriterTerm != 0 && a.WriterTerm < w.writerTerm, a.WriterTerm == 0 && w.fenced && w.writerTerm > 0:
		return m.refuse(v, record.Fenced)
	case a.ExpectedEnd != NoExpectation && a.ExpectedEnd+record.Offset(len(v.offsets)) != w.end:
		return m.refuse(v, record.EndMismatch)
	}
	if a.Check != nil {
		if from < 0 {
			from = w.end
		}
		if r := w.decideCheck(a.Check, from); r != 0 {
			return m.refuse(v, r)
		}
	}
	switch {
	case w.sealed:
		return m.refuse(v, record.Sealed)
	}
	if m.open == 0 {
		m.numbered++
		m.open = m.numbered
	}
	kept := *a
	for _, b := range batches {
		m.events = append(m.events, event{number: m.open, request: &kept, first: first, count: b.Count(), keys: keysOf(b)})
		first += record.Sequence(b.Count())
		for range b.Count() {
			v.offsets = append(v.offsets, w.end)
			w.end++
		}
	}
	v.restsOn = m.open
	return v
}

func (m *model) command(c record.Command) verdict {
	w := m.world()
	p := w.sessions[c.Session]
	resolved := verdict{duplicate: true, restsOn: m.newest()}
	var v verdict
	switch c.Kind {
	case record.OpenSession:
		if p != nil {
			if p.open && !p.implicit && p.epoch == 0 && p.next[0] == 0 {
				return resolved
			}
			return m.refuse(v, record.Invalid)
		}
		if w.sealed {
			return m.refuse(v, record.Sealed)
		}
	case record.CloseSession, record.ExpireSession, record.EndEpoch:
		if p == nil {
			return m.refuse(v, record.SessionNotFound)
		}
		if !p.open || c.Kind == record.EndEpoch && c.Epoch < p.epoch {
			return resolved
		}
	case record.AcquireWriter:
		c.WriterTerm = w.writerTerm + 1
	case record.LeaseWriter:
		if wanted, _ := record.ParseWriter(c.Text); w.writer != "" && w.writer != wanted.Name {
			return m.refuse(v, record.Busy)
		}
		c.WriterTerm = w.writerTerm + 1
	case record.ReleaseWriter:
		switch {
		case c.WriterTerm == 0:
			return m.refuse(v, record.Invalid)
		case w.writer == "" || c.WriterTerm != w.writerTerm:
			return m.refuse(v, record.Fenced)
		}
	case record.Trim:
		if c.Offset > w.end && c.Flags == 0 {
			return m.refuse(v, record.OffsetBeyondEnd)
		}
		if c.Offset > w.end && w.sealed {
			return m.refuse(v, record.Sealed)
		}
		if c.Offset <= w.start {
			return resolved
		}
		if c.Offset > w.held() {
			return m.refuse(v, record.Held)
		}
	case record.SetHold:
		h, _, _ := record.ParseHold(c.Text)
		at, there := w.holds[h.Name]
		if c.Flags == record.FlagFromStart {
			c.Offset = w.start
		}
		switch {
		case c.Offset < w.start:
			return m.refuse(v, record.OffsetTrimmed)
		case c.Offset > w.end:
			return m.refuse(v, record.OffsetBeyondEnd)
		case there && at == c.Offset:
			return resolved
		}
	case record.ReleaseHold:
		if _, there := w.holds[string(c.Text)]; !there {
			return m.refuse(v, record.HoldNotFound)
		}
		if c.Flags == record.FlagBroken && w.holds[string(c.Text)] != c.Offset {
			return resolved
		}
	case record.Fence:
		if w.fenced == (c.Flags&record.FlagFenced != 0) {
			return resolved
		}
	case record.Seal:
		if w.sealed {
			return resolved
		}
	}
	m.numbered++
	m.open = 0
	m.events = append(m.events, event{number: m.numbered, command: &c})
	return verdict{restsOn: m.numbered}
}

func (m *model) resolve(id record.SessionID, epoch record.Epoch, sequence record.Sequence) Outcome {
	p := m.world().sessions[id]
	if p == nil || epoch < p.from {
		return Outcome{State: Forgotten}
	}
	if h, there := p.at[place{epoch, sequence}]; there {
		switch {
		case h.number != 0:
			return Outcome{State: Pending}
		case sequence < p.low[epoch]:
			return Outcome{State: Forgotten}
		}
		return Outcome{State: Committed, Offset: h.offset}
	}
	if p.committed && (epoch < p.resolvedEpoch || !p.resolvedOpen && (!p.implicit || epoch == p.resolvedEpoch)) {
		return Outcome{State: Never}
	}
	return Outcome{State: NotNow}
}

func (m *model) drop(number uint64) {
	for i, e := range m.events {
		if e.number >= number && !e.committed {
			m.events = m.events[:i]
			m.open = 0
			return
		}
	}
}

func (m *model) commit(number uint64) {
	for i := range m.events {
		if m.events[i].number == number {
			m.events[i].committed = true
		}
	}
}

// keysOf returns the keys of the records of a batch, "" for none.
func keysOf(b record.Batch) (keys []string) {
	for r := range b.Records {
		keys = append(keys, string(r.Key))
	}
	return keys
}
