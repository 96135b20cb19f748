package repair

import (
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
	"strandline.dev/internal/segment/format"
)

// visit is the state of a surveyor while it walks one part.
type visit struct {
	*surveyor
	part   *part
	from   *source
	footer int64
}

// whole records a valid frame.
func (v *visit) whole(h *format.FrameHeader, position int64, payload []byte) {
	v.part.footer = 0
	switch h.Kind {
	case format.EntryFrame:
		v.found(h.Index, h.First)
		v.inventory.entry(h, whole, v.part.ordinal, v.from, position)
	case format.HardStateFrame, format.MarkFrame:
		v.found(h.Index+1, unknownOffset)
		v.hard, _ = format.ParseHardState(payload) // walk.fits has checked its length
		v.sure = v.part.header != nil              // the header holds the configuration, too
		v.inventory.state(h.Index, v.hard)
	case format.FooterFrame:
		v.part.footer = position
		if v.inventory.gap {
			v.found(h.Index+1, unknownOffset)
			v.inventory.reach(h.Index+1, 0)
		}
	}
}

// broken records a frame whose header is valid and whose payload is not.
func (v *visit) broken(h *format.FrameHeader, position int64, reason error) {
	d := Damage{File: v.part.path, Position: position, Size: h.Size(), Detail: reason.Error()}
	v.part.damaged = true
	v.inventory.apart = true
	switch h.Kind {
	case format.EntryFrame:
		v.found(h.Index, h.First)
		d.First, d.Last = h.Index, h.Index
		d.Start, d.End = h.First, h.First+record.Offset(h.Count)
		v.add(d)
		v.inventory.entry(h, broken, v.part.ordinal, nil, position)
	case format.HardStateFrame, format.MarkFrame:
		v.found(h.Index+1, unknownOffset)
		v.inventory.state(h.Index, segment.HardState{})
		v.add(d)
		v.unsure()
	default:
		v.add(d)
	}
}

// lost records bytes that held unknown frames.
func (v *visit) lost(from, to int64, reason error) {
	d := Damage{File: v.part.path, Position: from, Size: to - from, Detail: reason.Error()}
	if v.footer > 0 && from >= v.footer {
		v.part.damaged = true
		v.add(d)
		return
	}
	v.lostIn(v.part, d)
}

// lostIn records that unknown frames were lost in p. found adds which entries they held when the
// next frame is known.
func (v *surveyor) lostIn(p *part, d Damage) {
	p.damaged = true
	d.First, d.Start = v.inventory.next(), v.inventory.nextOffset
	v.open = append(v.open, v.add(d))
	v.unsure()
	v.inventory.lose(p.ordinal)
}

// unsure records that the damage added last may have held the newest hard state.
func (v *surveyor) unsure() {
	if p := &v.parts[v.at]; p.header == nil || !p.header.Rebuilt() {
		v.sure, v.hardAt = false, len(*v.damaged)-1
	}
}

// found completes the damage recorded so far: the log continues at the entry next, which begins
// at offset, if that is known.
func (v *surveyor) found(next uint64, offset record.Offset) {
	for _, k := range v.open {
		d := &(*v.damaged)[k]
		if d.First < next {
			d.Last, d.End = next-1, d.Start
			v.ends = append(v.ends, k)
		} else {
			d.First, d.Start = 0, 0
		}
	}
	v.open = v.open[:0]
	if offset == unknownOffset {
		return
	}
	for _, k := range v.ends {
		(*v.damaged)[k].End = max(offset, (*v.damaged)[k].Start)
	}
	v.ends = v.ends[:0]
}

// add adds damage to the report and returns its number.
func (v *surveyor) add(d Damage) int {
	*v.damaged = append(*v.damaged, d)
	return len(*v.damaged) - 1
}
