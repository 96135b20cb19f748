// Package budget divides a node's memory among the things that grow with what
// clients do. Each kind has its own part, so that nothing waits for memory which
// another kind holds: slow readers stop no append. What happens where
// a part is used up is in docs/limits.md.
package budget

import "runtime"

// Memory is what a node may hold, in parts. They add up to more than all of it: they are bounds of what
// rarely grows at the same time. What is not counted comes on top: stacks, buffers of connections,
// what is on its way between two counts, and garbage.
type Memory struct {
	size int64

	// Appends are requests to append that have been received and not answered, of
	// all clients and protocols. Until they have committed their bytes are held
	// three times: as received, as the entry made of them, and as Raft's copy of it.
	Appends *Pool
	// Inflating is what compressed batches inflate to while they are checked, and Inflate
	// are the turns in which that is done, of half the cores: however many come, the other
	// half is for those that are not compressed.
	Inflating *Pool
	Inflate   *Turns
	// Inflow is what has been received on gRPC's connections and no handler has
	// received, where requests to append wait.
	Inflow *Inflow
	// Answers are those to requests whose clients have not taken them.
	Answers *Shares
	// Tails are the newest entries of logs.
	Tails *Shares
	// Sending are messages that wait to be sent to other nodes, and entries read for
	// followers that lag; Received are entries of
	// other nodes that their logs have not taken.
	Sending, Received *Shares
	// Sessions are what logs remember of their sessions.
	Sessions *Shares
	// Checks are the keys of the newest records of logs whose clients use checks.
	Checks *Shares
	// Principals counts the memory of sessions by principal.
	Principals *Principals
	// Reads are chunks on their way to clients, and those read ahead. Those that a client has not
	// taken in time are in StalledReads instead.
	Reads        *Pool
	StalledReads *Stalled
	// Fetches are answers to Kafka's Fetch beyond the first chunk of each.
	Fetches *Pool
	// Calls and Polls are Kafka's requests other than Produce; Polls those that wait.
	Calls, Polls *Pool
	// Arriving are Kafka's requests that have not been received whole.
	Arriving *Arriving
	// Texts are JSON of requests over HTTP while it is decoded, SentTexts that of answers until their clients have
	// taken it: an answer never waits for requests.
	Texts, SentTexts *Arriving
	// Groups are Kafka's consumer groups: their members and what they have committed.
	Groups *Shares
	// FetchSessions are what Kafka's consumers have asked for, in sessions.
	FetchSessions *Shares
}

const (
	// Least is the smallest memory that a node works in.
	Least = 64 << 20
	// most bounds a part beyond which more does not make anything faster.
	most = 256 << 20
	// mostTexts has room for the largest request as JSON (rpc.MaxRequestBytes): a request may take half of the part, and
	// takes four times its text.
	mostTexts = 512 << 20
)

// New divides so many bytes.
func New(size int64) *Memory {
	size = max(size, Least)
	part := func(of int64) int64 { return min(size/of, most) }
	sessions := NewShares(size / 16)
	return &Memory{
		Principals: NewPrincipals(sessions),
		size:       size, Appends: NewPool(part(16)), Inflating: NewPool(part(16)), Inflate: NewTurns(max(1, runtime.GOMAXPROCS(0)/2)), Inflow: NewInflow(2 * part(16)), Answers: NewShares(size / 16), Tails: NewShares(size / 8), Sending: NewShares(size / 16), Received: NewShares(size / 16),
		Reads: NewPool(size / 8), StalledReads: NewStalled(size / 8), Fetches: NewPool(part(16)),
		Calls: NewPool(part(16)), Polls: NewPool(part(16)), Arriving: NewArriving(part(16)), Texts: NewArriving(min(size/16, mostTexts)), SentTexts: NewArriving(part(32)), Sessions: sessions, Groups: NewShares(size / 32), FetchSessions: NewShares(size / 64), Checks: NewShares(size / 32),
	}
}

// Size is all of it.
func (m *Memory) Size() int64 { return m.size }

// Used is what all parts hold together.
func (m *Memory) Used() (bytes int64) {
	for _, u := range m.Use() {
		bytes += u.Used
	}
	return bytes
}

// Use is how much of a part is taken.
type Use struct {
	Part       string `json:"part"`
	Used, Size int64
}

// Use of each part.
func (m *Memory) Use() []Use {
	return []Use{
		{"appends", m.Appends.Used(), m.Appends.Size()},
		{"inflating", m.Inflating.Used(), m.Inflating.Size()},
		{"inflow", m.Inflow.Used(), m.Inflow.Size()},
		{"answers", m.Answers.Used(), m.Answers.Size()},
		{"tails", m.Tails.Used(), m.Tails.Size()},
		{"sending", m.Sending.Used(), m.Sending.Size()},
		{"received", m.Received.Used(), m.Received.Size()},
		{"sessions", m.Sessions.Used(), m.Sessions.Size()},
		{"checks", m.Checks.Used(), m.Checks.Size()},
		{"reads", m.Reads.Used(), m.Reads.Size()},
		{"stalled reads", m.StalledReads.Used(), m.StalledReads.Size()},
		{"kafka fetches", m.Fetches.Used(), m.Fetches.Size()},
		{"kafka calls", m.Calls.Used(), m.Calls.Size()},
		{"kafka polls", m.Polls.Used(), m.Polls.Size()},
		{"kafka arriving", m.Arriving.Used(), m.Arriving.Size()},
		{"texts", m.Texts.Used(), m.Texts.Size()},
		{"sent texts", m.SentTexts.Used(), m.SentTexts.Size()},
		{"kafka groups", m.Groups.Used(), m.Groups.Size()},
		{"kafka sessions", m.FetchSessions.Used(), m.FetchSessions.Size()},
	}
}
