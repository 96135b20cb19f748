package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"strandline.dev/internal/segment/format"
	"strandline.dev/internal/vfs"
)

// sparesMax is how many spares are kept; further trimmed segments are removed.
const sparesMax = 2

// spares manages the files that become segments. There is always one, except on a full disk: with
// it the log takes commands and votes when there is no room for appends.
type spares struct {
	*Dir
	busy *activity

	// mu is held during each step of filling, so that the writer never writes where zeros are being
	// written. The writer takes it once per segment, and when it has caught up with the filler.
	mu     sync.Mutex
	kept   []*spare
	number uint64 // of the newest spare
}

type spare struct {
	path   string
	file   vfs.File // nil: not opened yet
	filled int64
	named  bool // its name is durable
}

// prepare creates a spare if there is none, and opens the one to be used next.
func (p *spares) prepare() (made bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sp := p.fullest(); sp != nil {
		return false, p.open(sp) // the writer must not have to open it, see Dir.held
	}
	sp, err := p.create()
	if err != nil {
		return false, err
	}
	if err := sp.fill(min(fillMin, p.Options.SegmentBytes)); err != nil {
		return false, errors.Join(err, sp.file.Close(), p.FS.Remove(sp.path))
	}
	if err := p.SyncDir(); err != nil {
		return false, errors.Join(err, sp.file.Close(), p.FS.Remove(sp.path))
	}
	sp.named = true
	p.kept = append(p.kept, sp)
	return true, nil
}

// prepareFirst creates the spare that becomes the first segment of a new log, see writer.begin:
// it makes the zeros durable with the header, and the name with that of the segment.
func (p *spares) prepareFirst() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp, err := p.create()
	if err != nil {
		return err
	}
	if err := sp.zero(min(fillMin, p.Options.SegmentBytes)); err != nil {
		return errors.Join(err, sp.file.Close(), p.FS.Remove(sp.path))
	}
	p.kept = append(p.kept, sp)
	return nil
}

func (p *spares) create() (*spare, error) {
	sp := &spare{path: p.path()}
	var err error
	sp.file, err = p.FS.Create(sp.path)
	if err != nil {
		return nil, fmt.Errorf("make a spare segment: %w", err)
	}
	return sp, nil
}

// path returns the path of the next spare. The caller holds spares.mu.
func (p *spares) path() string {
	p.number++
	return filepath.Join(p.Path, fmt.Sprintf("%020d.spare", p.number))
}

// fill makes at most one step of zeros durable.
func (sp *spare) fill(to int64) error {
	before := sp.filled
	if err := sp.zero(to); err != nil {
		return err
	}
	if err := sp.file.Datasync(); err != nil {
		sp.filled = before
		return fmt.Errorf("fill %s: %w", sp.path, err)
	}
	return nil
}

// zero writes at most one step of zeros.
func (sp *spare) zero(to int64) error {
	n := min(to-sp.filled, fillStep)
	if _, err := sp.file.WriteAt(zeros[:n], sp.filled); err != nil {
		return fmt.Errorf("fill %s: %w", sp.path, err)
	}
	sp.filled += n
	return nil
}

// fill extends the fullest spare towards size to.
func (p *spares) fill(to int64) (more bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp := p.fullest()
	if sp == nil || to <= sp.filled || to-sp.filled < fillStep && to < p.Options.SegmentBytes+footerRoom {
		return false, nil
	}
	if err := p.open(sp); err != nil {
		return false, err
	}
	if err := sp.fill(to); err != nil {
		return false, err
	}
	return sp.filled < to, nil
}

// fullest returns the spare with the most filled bytes, or nil if there is none. The caller holds
// spares.mu.
func (p *spares) fullest() *spare {
	if len(p.kept) == 0 {
		return nil
	}
	return slices.MaxFunc(p.kept, func(a, b *spare) int { return cmp.Compare(a.filled, b.filled) })
}

func (p *spares) have() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept) > 0
}

// take returns the fullest spare, opened, or a new empty one.
func (p *spares) take() (*spare, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp := p.fullest()
	if sp == nil {
		return p.create()
	}
	if err := p.open(sp); err != nil {
		return nil, err
	}
	p.kept = slices.DeleteFunc(p.kept, func(k *spare) bool { return k == sp })
	return sp, nil
}

func (p *spares) open(sp *spare) error {
	if sp.file != nil {
		return nil
	}
	var err error
	if sp.file, err = p.FS.Open(sp.path); err != nil {
		return fmt.Errorf("open spare segment: %w", err)
	}
	return nil
}

func (p *spares) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, sp := range p.kept {
		if sp.file != nil {
			err = errors.Join(err, sp.file.Close())
		}
	}
	p.kept = nil
	return err
}

// adopt keeps the spares that exist, except recycled ones: earlier versions recycled segments of
// which bytes may still be in sockets.
func (p *spares) adopt(infos []vfs.FileInfo) error {
	for _, info := range infos {
		path := filepath.Join(p.Path, info.Name)
		number, _ := parseNumber(strings.TrimSuffix(info.Name, ".spare"))
		p.number = max(p.number, number)
		unused, err := p.unused(path)
		if err != nil {
			return fmt.Errorf("check a spare segment: %w", err)
		}
		if !unused || len(p.kept) == sparesMax {
			if err := p.FS.Remove(path); err != nil {
				return fmt.Errorf("remove a spare segment: %w", err)
			}
			continue
		}
		p.kept = append(p.kept, &spare{path: path, filled: info.Size, named: true})
	}
	return nil
}

// unused reports whether no segment was ever begun in the file at path: it holds zeros where a
// header would be.
func (p *spares) unused(path string) (bool, error) {
	file, err := p.FS.Open(path)
	if err != nil {
		return false, err
	}
	b := make([]byte, format.HeaderSize)
	n, err := file.ReadAt(b, 0)
	unreadable := vfs.Unreadable(err)
	if err == io.EOF || unreadable {
		err = nil
	}
	return !unreadable && bytes.Equal(b[:n], zeros[:n]), errors.Join(err, file.Close())
}

// retire makes spares of the files of segments, or removes them. The segments are in ascending
// order and have no users.
//
// The directory is synced before a file is used again. Otherwise a file could be renamed and get
// the header of a new segment, the power could fail, and the old name would be back with the new
// header.
//
// After an error, files remain that are no longer part of the log. The next Recover removes them.
func (p *spares) retire(segments []*Segment) error {
	if len(segments) == 0 {
		return nil
	}
	var recycled []*spare
	for _, seg := range segments {
		sp := p.of(seg, len(recycled))
		var err error
		if sp != nil {
			err = p.FS.Rename(seg.Path, sp.path)
		} else {
			err = p.FS.Remove(seg.Path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // already removed
		case err != nil:
			return fmt.Errorf("trim: %w", err)
		case sp != nil:
			recycled = append(recycled, sp)
		}
	}
	if err := p.SyncDir(); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sp := range recycled {
		sp.named = true
	}
	p.kept = append(p.kept, recycled...)
	p.busy.kick() // the filler opens the next spare
	return nil
}

// of returns the spare that seg becomes, given that others more become spares too. It returns nil
// if there are enough, if the log is too idle to need one, or if bytes of seg may still be on
// their way to a client. A socket that was given bytes of a file by reference holds pages of the
// page cache, and sends their content at that time: perhaps long after the call has returned, or
// after the process has ended. The pages of a removed file do not change.
func (p *spares) of(seg *Segment, others int) *spare {
	if !seg.begun || seg.sent.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	enough := p.Options.SegmentBytes / 2
	if p.busy.recent.Load() < enough || seg.Size < enough || len(p.kept)+others >= sparesMax {
		return nil
	}
	return &spare{path: p.path(), filled: seg.Size}
}
