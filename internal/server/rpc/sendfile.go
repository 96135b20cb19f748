package rpc

import (
	"errors"
	"io"
	"net"
)

// SendFile has the system send up to size bytes of a file, from a position on, and returns
// how many it has. It waits as a write does. ErrNoFile: it is no file of the system.
type SendFile func(file io.ReaderAt, position int64, size int) (sent int, err error)

// ErrNoFile refuses what SendFile cannot send; nothing has been sent.
var ErrNoFile = errors.New("not a file that the system can send")

// FileSender returns how to send files by a connection; nil: it cannot be done.
func FileSender(conn net.Conn) SendFile {
	if socket := socketOf(conn); socket != nil {
		return fileSender(socket)
	}
	return nil
}
