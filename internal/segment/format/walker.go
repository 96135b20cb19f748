package format

import (
	"fmt"
	"io"
)

// Walker goes over the frames of one segment in file order. It is the only place that
// takes bytes of a file for a frame: a header that matches its checksum, in this place
// of this segment, with its payload in front of the end.
//
//	for w.MoveTo(position); w.Next(); {
//		w.Frame, w.Position, w.Payload()
//	}
//
// Next ends at the end, or at what is no frame, with the reason in Bad, or when the file
// cannot be read, with the error in Err. It allocates nothing.
type Walker struct {
	Salt uint64 // the segment's
	// End is where the frames end. If that is not known, it is the size of the file, and
	// a frame that runs beyond it has a header and no payload.
	End        int64
	EndUnknown bool
	// Read returns at least so many bytes at position of the file, and at most so many,
	// which stay as they are until the next call. With io.EOF it returns what there is.
	// nil: Use gave everything.
	Read func(position, least, most int64) ([]byte, error)

	Position int64       // of the frame, or of what is none
	Frame    FrameHeader // the one at Position
	Bad      error       // why there is no frame at Position, or none with this payload
	Err      error       // the error of Read

	next  int64 // where Next looks
	data  []byte
	begin int64 // position of data
}

// Use gives the walker the bytes of the segment at position begin.
func (w *Walker) Use(data []byte, begin int64) { w.data, w.begin = data, begin }

// MoveTo lets Next look at position.
func (w *Walker) MoveTo(position int64) {
	w.Position, w.next, w.Bad, w.Err = position, position, nil, nil
}

// Next moves to the frame behind the current one, or to where MoveTo said, and reports
// whether there is one. Its payload is not looked at.
func (w *Walker) Next() bool {
	if w.Bad != nil || w.Err != nil {
		return false
	}
	if w.Position = w.next; w.Position >= w.End {
		return false
	}
	return w.look()
}

// Pass lets Next continue behind the current frame though its payload is bad.
func (w *Walker) Pass() { w.MoveTo(w.Position + w.Frame.Size()) }

// Search moves to the first frame at from or behind, if there is one, whatever the bytes
// in front of it are.
func (w *Walker) Search(from int64) bool {
	for at := from; at+FrameHeaderSize <= w.End; at += FrameAlignment {
		b, err := w.bytes(at, FrameHeaderSize)
		if err == io.EOF {
			break
		}
		if err != nil {
			w.Err = err
			return false
		}
		if frameSalt(b) != w.Salt {
			continue
		}
		if w.MoveTo(at); w.look() {
			return true
		}
	}
	w.MoveTo(w.End)
	return false
}

// look reads the header at Position.
func (w *Walker) look() bool {
	b, err := w.bytes(w.Position, FrameHeaderSize)
	if err != nil {
		return w.stop(err, "within a frame header")
	}
	if w.Frame, w.Bad = ParseFrameHeader(b, w.Position, w.Salt); w.Bad != nil {
		return false
	}
	w.next = w.Position + w.Frame.Size()
	if w.next > w.End && !w.EndUnknown {
		w.Bad = fmt.Errorf("frame of %d bytes runs beyond the end of the segment", w.Frame.Length)
	}
	return w.Bad == nil
}

// Payload returns the payload of the frame, which stays as it is until the next call of
// the walker, and whether it matches its checksum. The zeros behind it have to be there, too.
func (w *Walker) Payload() ([]byte, bool) {
	b, err := w.bytes(w.Position, w.Frame.Size())
	if err != nil {
		return nil, w.stop(err, "within a frame")
	}
	payload := b[FrameHeaderSize:][:w.Frame.Length:w.Frame.Length]
	w.Bad = w.Frame.CheckPayload(payload)
	return payload, w.Bad == nil
}

// Reject says that the frame cannot be where it is.
func (w *Walker) Reject(format string, args ...any) { w.Bad = fmt.Errorf(format, args...) }

func (w *Walker) stop(err error, where string) bool {
	if err == io.EOF {
		w.Bad = fmt.Errorf("the file ends %s", where)
	} else {
		w.Err = err
	}
	return false
}

// bytes returns n bytes at position, of those that are there already or of the file.
func (w *Walker) bytes(position, n int64) ([]byte, error) {
	if at := position - w.begin; at >= 0 && at+n <= int64(len(w.data)) {
		return w.data[at : at+n], nil
	}
	if w.Read == nil || position+n > w.End {
		return nil, io.EOF
	}
	data, err := w.Read(position, n, w.End-position)
	if err != nil && err != io.EOF {
		return nil, err
	}
	w.data, w.begin = data, position
	if int64(len(data)) < n {
		return nil, io.EOF
	}
	return data[:n], nil
}

// LookBehind returns what the bad frame at Position is, by the frames behind it:
//
//	behind position P                             then P is
//	a valid frame that was built when P was       corrupt: those bytes were durable, and
//	  durable (synced-through > P)                  what is there now was not written
//	valid frames, none of which vouches for P     torn: they belong to writes that were
//	                                                never synced, and reached the disk in part
//	no valid frame, but the salt at P             torn, likewise
//	anything else                                 the end of what was written
//
// What lies behind P without being a valid frame of this segment says
// nothing: zeros, stale frames of a recycled file, payload without a header.
//
// A flipped bit in the frames of the last sync, with nothing written since,
// looks like a torn tail. The sync mark shrinks that window.
func (w *Walker) LookBehind() (torn, corrupt bool, err error) {
	position, bad := w.Position, w.Bad
	b, err := w.bytes(position, FrameHeaderSize)
	if err != nil && err != io.EOF {
		return false, false, err
	}
	torn = err == nil && frameSalt(b) == w.Salt
	for at := position; w.Search(at); at = w.Position + FrameAlignment {
		torn, corrupt = true, corrupt || w.Frame.Synced > position
	}
	err = w.Err
	w.MoveTo(position)
	w.Bad = bad
	return torn, corrupt, err
}
