package statemachine

import (
	"errors"
	"fmt"
	"time"

	"strandline.dev/client"
	"strandline.dev/statemachine/internal/rules"
)

// Option configures a Replica.
type Option func(*options)

type options struct {
	name      string
	state     *ownState // nil: none
	directory Directory // nil: no snapshots
	schedule  rules.Schedule
	keep      int
	hold      client.HoldInfo
	trim      bool
	digests   int64
	reader    []client.ReaderOption
	producer  []client.ProducerOption
	hooks     Hooks

	step func(step) error // for tests: called before each step; an error ends the replica there
}

// ownState is what a machine has when its replica is opened.
type ownState struct {
	log  uint64
	next int64
}

func defaultOptions() options {
	return options{
		schedule: rules.Schedule{Records: 10_000},
		keep:     2,
		hold:     client.HoldInfo{Name: "statemachine"},
		digests:  10_000,
		step:     func(step) error { return nil },
	}
}

func (o *options) check() error {
	switch {
	case o.keep < 1:
		return errors.New("the number of kept snapshots must be at least 1")
	case o.schedule.Records < 0 || o.schedule.Interval < 0:
		return errors.New("the snapshot schedule has a negative value")
	case len(o.name) > maxNameBytes:
		return fmt.Errorf("the name of the replica has %d bytes, the limit is %d", len(o.name), maxNameBytes)
	case o.digests < 0:
		return errors.New("the number of records between digests is negative")
	case o.state != nil && o.state.next < 0:
		return errors.New("the offset of the initial state is negative")
	}
	return nil
}

// WithSnapshots stores snapshots in a directory, and boots from them. The replica sets a hold on the log,
// so that the records behind the oldest of its snapshots stay. Default none: the log is applied from its
// start.
func WithSnapshots(d Directory) Option { return func(o *options) { o.directory = d } }

// WithSchedule takes a snapshot when so many records have been applied since the last one, or when it is
// so old and there are new records; 0: the number, or the time, does not matter. Replicas that share a
// directory wait up to half as long again, each for a time of its own, and use the snapshot of the first.
// With two zeros the replica takes none, and sets no hold. Default 10,000 records.
func WithSchedule(records int64, interval time.Duration) Option {
	return func(o *options) { o.schedule = rules.Schedule{Records: records, Interval: interval} }
}

// WithKeptSnapshots keeps so many of the newest snapshots, at least one, and the records behind the oldest
// of them, so that a replica can boot if the newest one is damaged. Default 2.
func WithKeptSnapshots(n int) Option { return func(o *options) { o.keep = n } }

// WithHold sets the name, owner, lease and limits of the hold. Replicas that share a directory share the
// hold, and reach it by the same Location; each directory needs a hold with a name of its own, and one that
// points elsewhere is refused with ErrHoldOfAnother. Default a hold with the name "statemachine"
// and without a lease, which stays until it is released.
func WithHold(h client.HoldInfo) Option { return func(o *options) { o.hold = h } }

// WithTrim trims the log after each snapshot, as far as the hold, and those of others, permit. Default off:
// the retention of the log does.
func WithTrim() Option { return func(o *options) { o.trim = true } }

// WithDigests compares the states of the replicas after every n records, if the machine is a Digester: each
// replica appends the digest of its state at the offsets that n divides to the log, in a record with the
// header of Header. All replicas need the same n. Default 10,000; 0: never.
func WithDigests(n int64) Option { return func(o *options) { o.digests = n } }

// maxNameBytes bounds the name of a replica.
const maxNameBytes = 128

// WithName names the replica, for the errors of others, in at most 128 bytes. Default a random name.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithState says that the machine, in a database of its own for example, has the state in which the
// records below next of the log with an id are applied. The program stores both, with the state, from the
// records that Apply gets and LogID. Default an empty machine.
func WithState(logID uint64, next int64) Option {
	return func(o *options) { o.state = &ownState{logID, next} }
}

// WithReader configures how the log is read: client.WithNearest and client.WithAnyReplica, for example, read
// it from the nearest replica. Options for the start, the end or a filter must not be given. Default from
// the leader.
func WithReader(opts ...client.ReaderOption) Option {
	return func(o *options) { o.reader = append(o.reader, opts...) }
}

// WithProducer configures the session of the proposals. Default that of client.Producer.
func WithProducer(opts ...client.ProducerOption) Option {
	return func(o *options) { o.producer = append(o.producer, opts...) }
}

// WithHooks calls functions of the program when something happens. Default none.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

// Hooks are functions that a Replica calls, each from one goroutine at a time. They must return soon, and
// must not call the Replica. A nil function is not called.
type Hooks struct {
	// Progress is called while the replica boots, at most every 100 ms, and when it has.
	Progress func(Progress)
	// Snapshot is called after each snapshot, with its offset, size in bytes and how long it took, or with
	// the error that prevented it or what follows it. The replica tries again.
	Snapshot func(SnapshotResult)
	// Trouble is called with an error that does not end the replica, and with nil when it is over.
	Trouble func(error)
}

// SnapshotResult is a snapshot that was taken, or was not.
type SnapshotResult struct {
	Offset int64
	Bytes  int64
	Took   time.Duration
	Err    error
}
