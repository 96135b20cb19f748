package lean

import (
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendFile sends up to size bytes of file, beginning at position, and returns the number of bytes
// sent: at least one, or an error. It blocks as a write does.
type SendFile func(file io.ReaderAt, position int64, size int) (sent int, err error)

// SendsFiles reports whether the system can send bytes of files on this connection.
func (s *serverStream) SendsFiles() bool { return s.writer.direct }

// SendFrom sends an encoded message, which consists of first, then size bytes that middle sends
// from files, then last. If it fails, the connection is broken, because part of the message may
// have been sent.
func (s *serverStream) SendFrom(first []byte, size int, middle func(SendFile) error, last []byte) error {
	err := s.writer.writeFrom(first, size, middle, last)
	if err != nil {
		s.cancel()
		return status.Errorf(codes.Unavailable, "send: %v", err)
	}
	return nil
}

func (w *frameWriter) writeFrom(first []byte, size int, middle func(SendFile) error, last []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bound()
	if w.finishCut(); w.failed != nil {
		return w.failed
	}
	w.begin(messageKind, len(first)+size+len(last))
	w.scratch = append(w.scratch, first...)
	if _, w.failed = w.to.Write(w.scratch); w.failed == nil {
		w.failed = middle(w.sendFile)
	}
	if w.failed == nil && len(last) > 0 {
		_, w.failed = w.to.Write(last)
	}
	w.spoken.Store(true)
	return w.failed
}
