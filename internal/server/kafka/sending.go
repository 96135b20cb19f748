package kafkaserver

import (
	"fmt"
	"net"
	"time"

	"strandline.dev/internal/server/kafka/readers"
	"strandline.dev/internal/server/rpc"
	"strandline.dev/internal/transport/lean"
)

// sending is the way of answers to a client.
type sending struct {
	conn    net.Conn
	metrics *metrics
	// sendFile sends bytes of a file; direct: the system does it without a copy.
	sendFile lean.SendFile
	direct   bool
	// sendBy is when the write deadline of conn ends.
	sendBy time.Time
}

// write sends the parts in order. A client may take any time, provided that it accepts sendPiece
// within sendTime.
func (c *sending) write(parts ...[]byte) error {
	if len(parts) == 1 && len(parts[0]) <= sendPiece {
		if err := c.sendInTime(); err != nil {
			return err
		}
		_, err := c.conn.Write(parts[0])
		return err
	}
	for len(parts) > 0 {
		var piece net.Buffers
		for size := 0; len(parts) > 0 && size < sendPiece; {
			n := min(len(parts[0]), sendPiece-size)
			piece = append(piece, parts[0][:n])
			size += n
			if parts[0] = parts[0][n:]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
		if err := c.sendInTime(); err != nil {
			return err
		}
		if _, err := piece.WriteTo(c.conn); err != nil {
			return err
		}
	}
	return nil
}

// send writes runs of bytes, and of files, one after the other.
func (c *sending) send(runs []readers.Run) error {
	var parts [][]byte
	for i := range runs {
		if runs[i].Stored == nil {
			parts = append(parts, runs[i].Bytes)
			continue
		}
		if err := c.write(parts...); err != nil {
			return err
		}
		parts = parts[:0]
		if err := c.sendStored(&runs[i]); err != nil {
			return err
		}
	}
	return c.write(parts...)
}

// sendStored sends bytes of a file. If the file cannot be read, its bytes count as unverified
// again, and the next read finds the error.
func (c *sending) sendStored(run *readers.Run) error {
	for position, left := run.Position, run.Size; left > 0; {
		if err := c.sendInTime(); err != nil {
			return err
		}
		n, err := c.sendFile(run.Stored.File, position, min(left, sendPiece))
		if err != nil {
			if rpc.FileFailed(err) {
				run.Stored.Distrust()
			}
			return fmt.Errorf("send records from a file: %w", err)
		}
		position, left = position+int64(n), left-n
	}
	c.metrics.fromFiles.Add(float64(run.Size))
	return nil
}

// sendInTime gives the next piece sendTime, and at most a second more: a
// deadline costs as much as a small answer, so it is not set for each.
func (c *sending) sendInTime() error {
	now := time.Now()
	if c.sendBy.Sub(now) >= sendTime {
		return nil
	}
	c.sendBy = now.Add(sendTime + time.Second)
	return c.conn.SetWriteDeadline(c.sendBy)
}
