package record

import (
	"encoding/binary"
	"fmt"
)

// CommandKind is the kind of a command. The numbers are stored on disk and must not change. 34 to
// 63 are reserved for trim holds, 64 to 95 for filters, 96 to 127 for chain checks, 128 to 159
// for acknowledgement timing.
type CommandKind uint16

const (
	// OpenSession opens Session with lease Lease (ms) at epoch 0.
	OpenSession CommandKind = 1
	// CloseSession ends Session at the request of its client.
	CloseSession CommandKind = 2
	// ExpireSession ends Session because its lease ran out.
	ExpireSession CommandKind = 3
	// EndEpoch makes the outcome of every sequence of Session up to Epoch that is not in the log
	// "never". The client continues in a higher epoch.
	EndEpoch CommandKind = 4
	// AcquireWriter raises the writer term to WriterTerm, and ends the writer lease.
	AcquireWriter CommandKind = 5
	// Trim removes every record below Offset. With FlagFastForward, Offset may be beyond the end,
	// and the log continues there.
	Trim CommandKind = 6
	// Seal refuses appends from now on.
	Seal CommandKind = 7
	// Configure sets the configuration of the log to Text.
	Configure CommandKind = 8
	// Fence makes the log fenced if FlagFenced is set, and not fenced otherwise. A fenced log
	// refuses appends without a writer term once a term has been granted.
	Fence CommandKind = 9
	// ForgetSession forgets Session, which has ended, before its retention is over, because a node
	// needs the memory.
	ForgetSession CommandKind = 10
	// LeaseWriter raises the writer term to WriterTerm and gives the writer lease to the writer in
	// Text, for the duration of Lease. See AppendWriter.
	LeaseWriter CommandKind = 11
	// ReleaseWriter ends the writer lease that was granted with WriterTerm.
	ReleaseWriter CommandKind = 12

	// SetHold sets the hold in Text, which keeps every record from Offset on for the duration of
	// Lease. An existing hold of that name is moved. See AppendHoldCommand.
	SetHold CommandKind = 32
	// ReleaseHold releases the hold named in Text.
	ReleaseHold CommandKind = 33
)

const (
	// FlagFastForward lets Trim move the end of the log.
	FlagFastForward uint32 = 1 << 0
	// FlagFenced is a flag of Fence.
	FlagFenced uint32 = 1 << 1
	// FlagExpired marks a ReleaseHold or ReleaseWriter because the lease ran out.
	FlagExpired uint32 = 1 << 2
	// FlagBroken marks a ReleaseHold because the hold kept more than it may. The request contains
	// the hold as it was seen, as for SetHold; the entry contains its name.
	FlagBroken uint32 = 1 << 3
	// FlagFromStart and FlagFromEnd request a SetHold at the start or the end of the log at the time
	// of the decision. The entry contains the offset.
	FlagFromStart uint32 = 1 << 4
	FlagFromEnd   uint32 = 1 << 5
)

const commandSize = 48

// Command is a change of the log that is not a record. It is an entry like any other, so its
// order relative to appends is the same on every replica.
//
//	 0  u16  kind
//	 2  u16  reserved
//	 4  u32  flags
//	 8  u64  session
//	16  u32  epoch
//	20  u32  lease, ms
//	24  i64  offset
//	32  u64  writer term
//	40  u64  reserved
//	48  text to the end
type Command struct {
	Kind       CommandKind
	Flags      uint32
	Session    SessionID
	Epoch      Epoch
	Lease      uint32
	Offset     Offset
	WriterTerm WriterTerm
	Text       []byte
}

// AppendCommand appends the encoding of c to dst.
func AppendCommand(dst []byte, c Command) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(c.Kind))
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, c.Flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Session))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(c.Epoch))
	dst = binary.LittleEndian.AppendUint32(dst, c.Lease)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Offset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.WriterTerm))
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	return append(dst, c.Text...)
}

// ParseCommand decodes the body of a command entry. Text aliases it. An unknown kind is an error:
// a replica stops at it.
func ParseCommand(body []byte) (Command, error) {
	if len(body) < commandSize {
		return Command{}, fmt.Errorf("%w: command of %d bytes", ErrEntry, len(body))
	}
	c := Command{
		Kind:       CommandKind(binary.LittleEndian.Uint16(body)),
		Flags:      binary.LittleEndian.Uint32(body[4:]),
		Session:    SessionID(binary.LittleEndian.Uint64(body[8:])),
		Epoch:      Epoch(binary.LittleEndian.Uint32(body[16:])),
		Lease:      binary.LittleEndian.Uint32(body[20:]),
		Offset:     Offset(binary.LittleEndian.Uint64(body[24:])),
		WriterTerm: WriterTerm(binary.LittleEndian.Uint64(body[32:])),
		Text:       body[commandSize:],
	}
	if (c.Kind < OpenSession || c.Kind > ReleaseWriter) && c.Kind != SetHold && c.Kind != ReleaseHold {
		return Command{}, fmt.Errorf("%w: unknown command %d", ErrEntry, c.Kind)
	}
	return c, nil
}
