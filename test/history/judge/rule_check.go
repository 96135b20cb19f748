package judge

import (
	"maps"
	"slices"
	"strings"

	"strandline.dev/test/history"
)

// unmatched: from the offset that the check of an append names, up to the append, no record matches.
type unmatched struct {
	idle
	court
	keys map[*book]map[string]keyAt // newest record with each key, below the offset that is swept
}

// keyAt is where a key is.
type keyAt struct {
	offset int64
	said   history.Place
}

func newUnmatched(c court, _ Options) rule {
	return &unmatched{court: c, keys: map[*book]map[string]keyAt{}}
}

func (k *unmatched) swept(b *book, offset int64, s *slot, _ int64) {
	r := s.record
	if r == nil {
		return
	}
	newest := k.keys[b]
	if newest == nil {
		newest = map[string]keyAt{}
		k.keys[b] = newest
	}
	// Records of one append do not match their own check.
	if c := r.call.check; c != nil && r.index == 0 && !r.ambiguous {
		for _, key := range slices.Sorted(maps.Keys(newest)) {
			if at := newest[key]; at.offset >= c.Since && matches(c, key) {
				k.accuse(b, []history.Place{r.call.invoked, at.said, s.said()}, "record %016x is at offset %d, and its check since %d does not allow key %q, which is at offset %d", r.hash, offset, c.Since, key, at.offset)
			}
		}
	}
	if r.index < len(r.call.keys) {
		newest[r.call.keys[r.index]] = keyAt{offset, s.said()}
	}
}

func matches(c *history.Check, key string) bool {
	return slices.Contains(c.Keys, key) || slices.ContainsFunc(c.Prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}
