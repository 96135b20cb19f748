package rpc

import (
	"io"
	"net"

	"golang.org/x/sys/unix"

	"strandline.dev/internal/transport/lean"
)

func fileSender(socket *net.TCPConn) lean.SendFile {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return func(file io.ReaderAt, position int64, size int) (sent int, err error) {
		from, ok := file.(interface{ Fd() uintptr })
		if !ok {
			return 0, errNoFile
		}
		failed := raw.Write(func(socket uintptr) bool {
			for {
				sent, err = unix.Sendfile(int(socket), int(from.Fd()), &position, size)
				if err != unix.EINTR {
					return err != unix.EAGAIN
				}
			}
		})
		switch {
		case failed != nil:
			return 0, failed
		case err == nil && sent == 0:
			err = io.ErrUnexpectedEOF
		}
		return max(sent, 0), err
	}
}
