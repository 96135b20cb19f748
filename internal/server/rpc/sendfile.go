package rpc

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	"strandline.dev/internal/transport/lean"
)

// errNoFile means that the source is not a file of the operating system. Nothing has been sent.
var errNoFile = errors.New("not a file that the system can send")

// FileStream is a stream on which the system can send bytes of files, see package lean. SendFrom
// may be used if SendsFiles returns true.
type FileStream interface {
	SendsFiles() bool
	SendFrom(first []byte, size int, middle func(lean.SendFile) error, last []byte) error
}

// FileSender returns a function that sends bytes of files on a connection, and reports whether the
// system sends them without a copy, which TLS prevents.
func FileSender(conn net.Conn) (send lean.SendFile, direct bool) {
	var bySystem lean.SendFile
	if socket := socketOf(conn); socket != nil {
		bySystem = fileSender(socket)
	}
	return func(file io.ReaderAt, position int64, size int) (int, error) {
		if bySystem != nil {
			if n, err := bySystem(file, position, size); !errors.Is(err, errNoFile) {
				return n, err
			}
		}
		piece := make([]byte, min(size, maxPiece))
		if n, err := file.ReadAt(piece, position); n < len(piece) {
			return 0, err
		}
		return conn.Write(piece)
	}, bySystem != nil
}

// FileFailed reports whether sending failed because of the file and not because of the connection.
func FileFailed(err error) bool {
	return !slices.ContainsFunc([]error{syscall.EPIPE, syscall.ECONNRESET, syscall.ETIMEDOUT, net.ErrClosed, os.ErrDeadlineExceeded},
		func(ofConnection error) bool { return errors.Is(err, ofConnection) })
}

// maxPiece bounds what is read from a file to be written, in bytes.
const maxPiece = 64 << 10
