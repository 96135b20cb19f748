package format

import (
	"fmt"
	"io"
)

// Walker iterates over the frames of one segment in file order. No other code decides that bytes
// of a file are a frame: a header that matches its checksum at this position of this segment,
// with its payload before the end.
//
//	for w.MoveTo(position); w.Next(); {
//		w.Frame, w.Position, w.Payload()
//	}
//
// Next returns false at the end; at bytes that are not a frame, with the reason in Bad; and if
// the file cannot be read, with the error in Err. A Walker does not allocate.
type Walker struct {
	Salt uint64 // the segment's
	// End is the position at which the frames end. If EndUnknown is set, it is the size of the file,
	// and a frame that runs beyond it has a header but no payload.
	End        int64
	EndUnknown bool
	// Read returns at least least and at most most bytes at position of the file. They are valid
	// until the next call. At the end of the file it returns the bytes that there are, and io.EOF.
	// It may be nil if Use was given everything.
	Read func(position, least, most int64) ([]byte, error)

	Position int64       // of the frame, or of the bytes that are not one
	Frame    FrameHeader // the one at Position
	Bad      error       // why the frame at Position, or its payload, is not valid
	Err      error       // the error of Read

	next  int64 // where Next looks
	data  []byte
	begin int64 // position of data
}

// Use sets the bytes of the segment from position begin on.
func (w *Walker) Use(data []byte, begin int64) { w.data, w.begin = data, begin }

// MoveTo makes the next call of Next examine position.
func (w *Walker) MoveTo(position int64) {
	w.Position, w.next, w.Bad, w.Err = position, position, nil, nil
}

// Next moves to the frame behind the current one, or at the position given to MoveTo, and reports
// whether there is a frame. It does not check the payload.
func (w *Walker) Next() bool {
	if w.Bad != nil || w.Err != nil {
		return false
	}
	if w.Position = w.next; w.Position >= w.End {
		return false
	}
	return w.look()
}

// Pass makes Next continue behind the current frame although its payload is bad.
func (w *Walker) Pass() { w.MoveTo(w.Position + w.Frame.Size()) }

// Search moves to the first frame at or behind from and reports whether there is one. It ignores
// the bytes in front of that frame.
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

// Payload returns the payload of the frame, which is valid until the next call of a method, and
// reports whether it matches its checksum. The padding behind it must be within the file, too.
func (w *Walker) Payload() ([]byte, bool) {
	b, err := w.bytes(w.Position, w.Frame.Size())
	if err != nil {
		return nil, w.stop(err, "within a frame")
	}
	payload := b[FrameHeaderSize:][:w.Frame.Length:w.Frame.Length]
	w.Bad = w.Frame.CheckPayload(payload)
	return payload, w.Bad == nil
}

// Reject marks the frame as one that cannot be where it is.
func (w *Walker) Reject(format string, args ...any) { w.Bad = fmt.Errorf(format, args...) }

func (w *Walker) stop(err error, where string) bool {
	if err == io.EOF {
		w.Bad = fmt.Errorf("the file ends %s", where)
	} else {
		w.Err = err
	}
	return false
}

// bytes returns n bytes at position, from memory or from the file.
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

// LookBehind classifies the bad frame at Position by the frames behind it:
//
//	behind position P                             then P is
//	a valid frame that was built when P was       corrupt: those bytes were durable, and
//	  durable (synced-through > P)                  what is there now was not written
//	valid frames, none of which vouches for P     torn: they belong to writes that were
//	                                                never synced, and reached the disk in part
//	no valid frame, but the salt at P             torn, likewise
//	anything else                                 the end of what was written
//
// Bytes behind P that are not a valid frame of this segment carry no information: zeros, stale
// frames of a recycled file, payload without a header.
//
// A flipped bit in the frames of the last sync, with nothing written since, looks like a torn
// tail. The sync mark narrows that window.
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
