package segment

// HeaderSize is where the first frame of a segment begins.
const HeaderSize = headerSize

// MakeDirs is MkdirAll of OS on other directories.
var MakeDirs = makeDirs

// Stored is a frame as found in a file.
type Stored struct {
	Position, Size int64
	Kind           string
	Index          uint64
	Synced         int64
}

// FramesIn lists the frames of a segment file from the first up to the first
// bad one.
func FramesIn(content []byte) []Stored {
	h, err := parseHeader(content)
	if err != nil {
		return nil
	}
	var frames []Stored
	for at := int64(headerSize); at < int64(len(content)); {
		f, err := parseFrameHeader(content[at:], at, h.salt)
		if err != nil || at+f.size() > int64(len(content)) || f.checkPayload(content[at+frameHeaderSize:][:f.length]) != nil {
			return frames
		}
		kind := [...]string{entryFrame: "entry", hardStateFrame: "hard state", markFrame: "mark", footerFrame: "footer"}[f.kind]
		frames = append(frames, Stored{at, f.size(), kind, f.index, f.synced})
		at += f.size()
	}
	return frames
}
