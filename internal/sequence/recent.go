package sequence

import (
	"encoding/binary"
	"sort"
	"strings"

	"strandline.dev/internal/record"
)

const (
	// MaxRecentBytes bounds the memory for the recent keys of a log: some 100,000 keys of 40 bytes.
	MaxRecentBytes = 16 << 20
	// maxRecentInflated bounds the decompressed size of a batch whose keys are kept. After a larger
	// one recent keys begin anew.
	maxRecentInflated = 4 << 20
	// keepKeysMs is how long the leader of a log keeps recent keys after the last check.
	keepKeysMs = 60_000

	// Memory of an entry in its ring, and of a name with its place in the map, besides its text.
	bytesOfRecent = 32
	bytesOfName   = 112
	// spareInflated is how much of the memory for decompression is reused.
	spareInflated = 64 << 10
)

// recentKeys are the keys and headers of the newest records, in flight included, which a leader
// keeps while clients use checks. All records from start on are in it.
//
//	... records | start ........ table.End ..... in flight ... log.end
//	              entries: one for each key and header, by offset
//	                 ^ evict takes from here        undo from here ^
//	              names: for each distinct one its newest offset
type recentKeys struct {
	kept    bool // otherwise nothing is known
	start   record.Offset
	limit   int   // bytes
	used    int64 // leases.elapsed at the last check
	bytes   int
	entries queue[recentEntry]
	names   map[string]*recentName

	text     []byte // scratch
	inflated []byte
}

// recentEntry is the key or a header of the record at an offset. The key of a record precedes its
// headers.
type recentEntry struct {
	offset record.Offset
	name   *recentName
	before record.Offset // newest offset of the name before this one, or -1
}

// recentName is a key or header that records from start on have.
type recentName struct {
	text   string // as appendKey or appendHeader encodes it
	newest record.Offset
}

const keyMark, headerMark = 'k', 'h'

func appendKey(dst, key []byte) []byte { return append(append(dst, keyMark), key...) }

func appendHeader(dst, name, value []byte) []byte {
	dst = binary.AppendUvarint(append(dst, headerMark), uint64(len(name)))
	dst = append(dst, name...)
	if value == nil {
		return append(dst, 0)
	}
	return append(append(dst, 1), value...)
}

// keep begins to keep keys, from the end of the log on.
func (k *recentKeys) keep(end record.Offset) {
	*k = recentKeys{kept: true, start: end, limit: k.limit, names: map[string]*recentName{}}
}

// forget releases everything.
func (k *recentKeys) forget() { *k = recentKeys{limit: k.limit} }

// bound sets the memory that may be used.
func (k *recentKeys) bound(limit int) {
	k.limit = min(limit, MaxRecentBytes)
	k.evict()
}

// add adds the records of a batch, which get consecutive offsets from first on.
func (k *recentKeys) add(b record.Batch, first record.Offset) {
	var w record.Walk
	memory, err := w.Begin(b, k.inflated, maxRecentInflated)
	if err == nil {
		for o := first; w.Next(); o++ {
			if key := w.Key(); key != nil {
				k.text = appendKey(k.text[:0], key)
				k.addName(o)
			}
			for name, value := range w.Headers {
				k.text = appendHeader(k.text[:0], name, value)
				k.addName(o)
			}
		}
		err = w.Err()
	}
	if k.inflated = memory[:0]; cap(memory) > spareInflated {
		k.inflated = nil
	}
	if cap(k.text) > spareInflated {
		k.text = nil
	}
	if err != nil {
		k.keepFrom(first + record.Offset(b.Count()))
		return
	}
	k.evict()
}

// keepFrom begins anew, with what follows an offset.
func (k *recentKeys) keepFrom(start record.Offset) {
	used := k.used
	k.keep(start)
	k.used = used
}

func (k *recentKeys) addName(o record.Offset) {
	e := recentEntry{offset: o, before: -1}
	if e.name = k.names[string(k.text)]; e.name == nil {
		e.name = &recentName{text: string(k.text)}
		k.names[e.name.text] = e.name
		k.bytes += bytesOfName + len(e.name.text)
	} else {
		e.before = e.name.newest
	}
	e.name.newest = o
	k.entries.pushBack(e)
	k.bytes += bytesOfRecent
}

func (k *recentKeys) removeName(n *recentName) {
	delete(k.names, n.text)
	k.bytes -= bytesOfName + len(n.text)
}

// evict forgets the oldest records until the rest fits into the memory.
func (k *recentKeys) evict() {
	for k.bytes > k.limit && k.entries.len() > 0 {
		k.start = k.entries.at(0).offset + 1
		for k.entries.len() > 0 && k.entries.at(0).offset < k.start {
			e := k.entries.popFront()
			k.bytes -= bytesOfRecent
			if e.name.newest < k.start && k.names[e.name.text] == e.name {
				k.removeName(e.name)
			}
		}
	}
}

// undo removes the records from end on, where the log ends again.
func (k *recentKeys) undo(end record.Offset) {
	for n := k.entries.len(); n > 0 && k.entries.at(n-1).offset >= end; n-- {
		e := k.entries.popBack()
		k.bytes -= bytesOfRecent
		if e.name.newest = e.before; e.before < k.start {
			k.removeName(e.name)
		}
	}
	k.start = min(k.start, end)
}

// find returns the newest record that matches a check, or nil. The check is to be decided
// from start or later.
func (k *recentKeys) find(c *Check) *Match {
	from, newest := c.from(), record.Offset(-1)
	look := func() {
		if n := k.names[string(k.text)]; n != nil && n.newest >= from {
			newest = max(newest, n.newest)
		}
	}
	for _, key := range c.keys {
		k.text = appendKey(k.text[:0], key)
		look()
	}
	for i := range c.headers {
		k.text = appendHeader(k.text[:0], []byte(c.headers[i].Key), c.headers[i].Value)
		look()
	}
	if at := k.findPrefix(c, max(from, newest+1)); at >= 0 {
		newest = at
	}
	if newest < 0 {
		return nil
	}
	return &Match{Offset: newest, Key: k.keyAt(newest)}
}

// findPrefix returns the newest offset, from since on, of a record whose key begins with one of
// the prefixes, or -1.
func (k *recentKeys) findPrefix(c *Check, since record.Offset) record.Offset {
	if len(c.prefixes) == 0 {
		return -1
	}
	for i := k.entries.len() - 1; i >= 0; i-- {
		e := k.entries.at(i)
		if e.offset < since {
			break
		}
		if key, is := e.name.key(); is && c.beginsText(key) {
			return e.offset
		}
	}
	return -1
}

func (c *Check) beginsText(key string) bool {
	for _, p := range c.prefixes {
		if len(p) <= len(key) && key[:len(p)] == string(p) {
			return true
		}
	}
	return false
}

// key returns the key that the name is, if it is one.
func (n *recentName) key() (string, bool) { return strings.CutPrefix(n.text, string(keyMark)) }

// keyAt returns the key of the record at an offset, or nil if it has none.
func (k *recentKeys) keyAt(o record.Offset) []byte {
	i := sort.Search(k.entries.len(), func(i int) bool { return k.entries.at(i).offset >= o })
	if i < k.entries.len() && k.entries.at(i).offset == o {
		if key, is := k.entries.at(i).name.key(); is {
			return []byte(key)
		}
	}
	return nil
}

// KeepKeys makes the leader keep recent keys from now on, as a check does, and returns the offset
// from which on it has them. It must lead.
func (s *pipeline) KeepKeys() record.Offset {
	if !s.recent.kept {
		s.recent.keep(s.log.end)
	}
	s.recent.used = s.leases.elapsed
	return s.recent.start
}

// KeysFrom returns the offset from which on recent keys are kept, or -1 if none are.
func (s *pipeline) KeysFrom() record.Offset {
	if !s.recent.kept {
		return -1
	}
	return s.recent.start
}

// KeyBytes returns the memory of recent keys.
func (s *pipeline) KeyBytes() int { return s.recent.bytes }

// BoundKeys bounds the memory of recent keys. Beyond it, the oldest are forgotten.
func (s *pipeline) BoundKeys(bytes int) { s.recent.bound(bytes) }

// ForgetKeys releases the memory of recent keys.
func (s *pipeline) ForgetKeys() { s.recent.forget() }
