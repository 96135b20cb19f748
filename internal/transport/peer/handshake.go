package peer

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// Magic is the first bytes of every connection between nodes, in both directions. Its first byte
// is neither that of HTTP nor that of TLS.
const Magic = "\xf5STRAND\n"

// The handshake is the same in both directions and in every version of the protocol, so that
// different versions can report the reason of a refusal to each other. Each side sends its
// opening without waiting for the other's:
//
//	 0  8 bytes  magic
//	 8  u32      oldest version of the protocol that the sender speaks
//	12  u32      length of the rest, at most 64 KiB
//	16  u32      CRC-32C of the rest
//	20  JSON     opening
//
// After it has judged the opening of the other side, a side sends its verdict:
//
//	0  u8   0 welcome, 1 refused, 2 not yet: the same opening may be welcome later
//	1  u32  length of the reason, at most 16 KiB
//	5  u32  CRC-32C of the reason
//	9  the reason, UTF-8
//
// Frames follow once both are welcome; otherwise both close.
type opening struct {
	Cluster string   `json:"cluster,omitempty"`
	Former  []string `json:"former,omitempty"` // see Hello
	Node    Node     `json:"node"`
	// Ask is set on a connection that carries only calls of the node that dialled, and is not the
	// permanent connection of the two nodes.
	Ask         bool                   `json:"ask,omitempty"`
	Incarnation Incarnation            `json:"life"`
	Known       map[NodeID]Incarnation `json:"known,omitempty"`
	Levels      Levels                 `json:"levels,omitzero"`
	// Compression is set if the sender reads compressed frames.
	Compression bool `json:"compression,omitempty"`
	// LargeMessages is set if the sender reads the lane for large messages.
	LargeMessages bool `json:"large_messages,omitempty"`
	// Newest is the newest version of the protocol that the sender speaks. If it is 0, the sender
	// speaks only the oldest.
	Newest uint32 `json:"newest_version,omitempty"`

	oldest uint32
	proved string // see Hello
}

type judgement uint8

const (
	welcome judgement = 0
	refused judgement = 1
	notYet  judgement = 2
)

type verdict struct {
	judgement judgement
	reason    string
}

// A RefusedError is the reason why a connection was not opened. If an operator removes the
// reason, a later attempt may succeed.
type RefusedError struct {
	Node   Node // the node at the other end
	ByUs   bool // whether this node refused the other
	Reason string

	notYet bool // whether the attempt was only too early
}

func (e *RefusedError) Error() string {
	if e.ByUs {
		return fmt.Sprintf("node %v was refused: %s", e.Node, e.Reason)
	}
	return fmt.Sprintf("refused by node %v: %s", e.Node, e.Reason)
}

func (o opening) hello() Hello {
	return Hello{Cluster: o.Cluster, Former: o.Former, Node: o.Node, Proved: o.proved, Incarnation: o.Incarnation, Known: o.Known, Levels: o.Levels}
}

// shakeHands exchanges openings and verdicts. An error of type *RefusedError is a verdict; other
// errors are those of the connection.
func shakeHands(conn net.Conn, from *bufio.Reader, mine opening, judge func(theirs opening) verdict, within time.Duration) (opening, error) {
	_ = conn.SetDeadline(time.Now().Add(within)) // fails only if conn is closed; then the next write fails too
	if _, err := conn.Write(mine.encode()); err != nil {
		return opening{}, fmt.Errorf("send opening: %w", err)
	}
	theirs, err := readOpening(from)
	if err != nil {
		return opening{}, fmt.Errorf("read opening: %w", err)
	}
	ours := judgeVersions(mine, theirs)
	if ours.judgement == welcome {
		ours = judge(theirs)
	}
	if _, err := conn.Write(ours.encode()); err != nil {
		return theirs, fmt.Errorf("send verdict: %w", err)
	}
	other, err := readVerdict(from)
	switch {
	case err == nil && other.judgement != welcome:
		return theirs, &RefusedError{Node: theirs.Node.brief(), Reason: brief(other.reason), notYet: other.judgement == notYet}
	case ours.judgement != welcome:
		return theirs, &RefusedError{Node: theirs.Node.brief(), ByUs: true, Reason: brief(ours.reason), notYet: ours.judgement == notYet}
	case err != nil:
		return theirs, fmt.Errorf("read verdict: %w", err)
	}
	return theirs, conn.SetDeadline(time.Time{})
}

// newest returns the newest version of the protocol that the sender speaks.
func (o opening) newest() uint32 { return max(o.oldest, o.Newest) }

// version returns the version that both sides use.
func version(mine, theirs opening) uint32 { return min(mine.newest(), theirs.newest()) }

func judgeVersions(mine, theirs opening) verdict {
	if v := version(mine, theirs); v >= mine.oldest && v >= theirs.oldest {
		return verdict{}
	}
	return verdict{refused, fmt.Sprintf("this node speaks versions %d to %d of the protocol between nodes, and the other node %d to %d: run consecutive releases on the nodes of a cluster",
		mine.oldest, mine.newest(), theirs.oldest, theirs.newest())}
}

func (o opening) encode() []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers only
	}
	out := append([]byte(Magic), make([]byte, 12)...)
	binary.LittleEndian.PutUint32(out[8:], o.oldest)
	binary.LittleEndian.PutUint32(out[12:], uint32(len(body)))
	binary.LittleEndian.PutUint32(out[16:], crc32.Checksum(body, castagnoli))
	return append(out, body...)
}

func readOpening(from io.Reader) (opening, error) {
	var head [20]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return opening{}, err
	}
	if string(head[:8]) != Magic {
		return opening{}, fmt.Errorf("%q is not the start of a connection of a Strandline node: another program uses this address", head[:8])
	}
	body, err := readChecked(from, head[12:], maxHello)
	if err != nil {
		return opening{}, err
	}
	var o opening
	if err := json.Unmarshal(body, &o); err != nil {
		return opening{}, err
	}
	o.oldest = binary.LittleEndian.Uint32(head[8:])
	return o, nil
}

func (v verdict) encode() []byte {
	reason := cut(v.reason)
	out := append([]byte{byte(v.judgement)}, make([]byte, 8)...)
	binary.LittleEndian.PutUint32(out[1:], uint32(len(reason)))
	binary.LittleEndian.PutUint32(out[5:], crc32.Checksum([]byte(reason), castagnoli))
	return append(out, reason...)
}

func readVerdict(from io.Reader) (verdict, error) {
	var head [9]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return verdict{}, err
	}
	reason, err := readChecked(from, head[1:], maxReason)
	if err != nil {
		return verdict{}, err
	}
	if head[0] > byte(notYet) {
		return verdict{}, fmt.Errorf("unknown verdict %d", head[0])
	}
	return verdict{judgement(head[0]), string(reason)}, nil
}

// readChecked reads the bytes whose length and CRC-32C announced holds.
func readChecked(from io.Reader, announced []byte, limit uint32) ([]byte, error) {
	length := binary.LittleEndian.Uint32(announced)
	if length > limit {
		return nil, fmt.Errorf("%d bytes announced, the limit is %d", length, limit)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(announced[4:]) {
		return nil, errors.New("the CRC does not match")
	}
	return body, nil
}

// cut limits the length of a text that is sent to another node.
func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return text[:maxReason-3] + "..."
}
