package segment_test

import (
	"strandline.dev/internal/segment/format"
)

// headerSize is where the first frame of a segment begins.
const headerSize = format.HeaderSize

// storedFrame is a frame as found in a file.
type storedFrame struct {
	Position, Size int64
	Kind           string
	Index          uint64
	Synced         int64
}

// framesIn lists the frames of a segment file from the first up to the first
// bad one.
func framesIn(content []byte) []storedFrame {
	h, err := format.ParseHeader(content)
	if err != nil {
		return nil
	}
	var frames []storedFrame
	for at := int64(format.HeaderSize); at < int64(len(content)); {
		f, err := format.ParseFrameHeader(content[at:], at, h.Salt)
		if err != nil || at+f.Size() > int64(len(content)) || f.CheckPayload(content[at+format.FrameHeaderSize:][:f.Length]) != nil {
			return frames
		}
		kind := [...]string{format.EntryFrame: "entry", format.HardStateFrame: "hard state", format.MarkFrame: "mark", format.FooterFrame: "footer"}[f.Kind]
		frames = append(frames, storedFrame{at, f.Size(), kind, f.Index, f.Synced})
		at += f.Size()
	}
	return frames
}
