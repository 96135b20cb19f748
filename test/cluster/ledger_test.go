package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

var ledgerKills = flag.Int("ledger.kills", 2, "how often the leader is killed in TestALedgerOfManyWritersIsLinearizableWhileLeadersDie")

// Any number of writers move money on nothing but the log: each decides on what it has read, and appends on the
// condition that nobody has changed that since. A customer has two accounts and may overdraw one as far as the
// other covers it: so a writer that missed a change of either would pay what is not there.
func TestALedgerOfManyWritersIsLinearizableWhileLeadersDie(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3})
	b := openBank(t, c)
	for range *ledgerKills {
		b.await(40)
		leader := c.AwaitLeader(bankLog)
		c.Node(leader).Kill()
		c.AwaitLeader(bankLog, leader)
		b.await(40)
		c.Node(leader).Restart()
		c.AwaitHealthy()
	}
	b.await(40)
	operations := b.close()
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(bankModel, operations, Patience))
	require.Positive(t, b.conflicts, "some decisions rested on what others had changed")
	t.Logf("%d operations, %d refused for want of money, %d in doubt; %d conflicts", len(operations), b.poor, b.unknown, b.conflicts)
}

const (
	bankLog       = "ledger"
	bankCustomers = 2
	bankWriters   = 6
	bankAuditors  = 1
	bankMoney     = 100 // in each account at the beginning
)

// balances are those of all accounts, two of each customer.
type balances [bankCustomers][2]int

func (b *balances) move(p payment) {
	b[p.From.Customer][p.From.Number] -= p.Amount
	b[p.To.Customer][p.To.Number] += p.Amount
}

func (b *balances) total(customer int) int { return b[customer][0] + b[customer][1] }

type account struct{ Customer, Number int }

func (a account) header() client.Header {
	return client.Header{Key: "account", Value: fmt.Appendf(nil, "%d/%d", a.Customer, a.Number)}
}

// payment is a record of the log.
type payment struct {
	From, To account
	Amount   int
}

// audit is an operation that reads all balances.
type audit struct{}

// paid is the outcome of a payment.
type paid struct {
	done, unknown bool
	total         int // of the customer who pays, before
}

// bankModel is a bank that does one thing after another.
var bankModel = porcupine.Model{
	Init: func() any {
		var b balances
		for customer := range b {
			b[customer] = [2]int{bankMoney, bankMoney}
		}
		return b
	},
	Step: func(state, input, output any) (bool, any) {
		now := state.(balances)
		p, pays := input.(payment)
		if !pays {
			return output == any(now), now
		}
		total := now.total(p.From.Customer)
		enough := total >= p.Amount
		if enough {
			now.move(p)
		}
		out := output.(paid)
		return out.unknown || out.done == enough && out.total == total, now
	},
}

// bank is writers and auditors at work, and what they have done.
type bank struct {
	cancel  context.CancelFunc
	ctx     context.Context
	working sync.WaitGroup
	began   time.Time

	mu                       sync.Mutex
	changed                  *sync.Cond
	operations               []porcupine.Operation
	conflicts, poor, unknown int
	stopping                 bool
}

func openBank(t *testing.T, c *Cluster) *bank {
	t.Helper()
	c.CreateLog(bankLog, client.LogConfig{})
	b := &bank{began: time.Now()}
	b.changed = sync.NewCond(&b.mu)
	b.ctx, b.cancel = context.WithTimeout(t.Context(), Patience+time.Duration(*ledgerKills)*time.Minute)
	t.Cleanup(b.cancel)
	context.AfterFunc(b.ctx, b.changed.Broadcast)
	for i := range bankWriters + bankAuditors {
		copied := &bankCopy{client: c.Client(), balances: bankModel.Init().(balances)}
		random := rand.New(rand.NewPCG(31, uint64(i)))
		b.working.Go(func() {
			defer copied.close()
			for !b.stops() {
				if i < bankAuditors {
					b.audit(i, copied)
				} else {
					b.pay(i, copied, drawPayment(random))
				}
			}
		})
	}
	return b
}

func drawPayment(random *rand.Rand) payment {
	from := account{random.IntN(bankCustomers), random.IntN(2)}
	to := account{random.IntN(bankCustomers), random.IntN(2)}
	for to == from {
		to = account{random.IntN(bankCustomers), random.IntN(2)}
	}
	return payment{from, to, 1 + random.IntN(2*bankMoney)}
}

func (b *bank) stops() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopping || b.ctx.Err() != nil
}

// await waits until so many more operations have ended.
func (b *bank) await(more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n := len(b.operations) + more; len(b.operations) < n && b.ctx.Err() == nil; {
		b.changed.Wait()
	}
}

// close lets the operations that have begun end, and returns all.
func (b *bank) close() []porcupine.Operation {
	b.mu.Lock()
	b.stopping = true
	b.mu.Unlock()
	b.working.Wait()
	return b.operations
}

func (b *bank) now() int64 { return time.Since(b.began).Nanoseconds() }

func (b *bank) note(o porcupine.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out, pays := o.Output.(paid); pays && out.unknown {
		b.unknown++
		o.Return = math.MaxInt64
	} else if pays && !out.done {
		b.poor++
	}
	b.operations = append(b.operations, o)
	b.changed.Broadcast()
}

func (b *bank) audit(who int, copied *bankCopy) {
	call := b.now()
	if copied.catchUp(b.ctx) == nil {
		b.note(porcupine.Operation{ClientId: who, Input: audit{}, Call: call, Output: copied.balances, Return: b.now()})
	}
}

// pay makes a payment if the customer has enough, as of what the copy has read when it is appended.
func (b *bank) pay(who int, copied *bankCopy, p payment) {
	o := porcupine.Operation{ClientId: who, Input: p, Call: b.now()}
	for b.ctx.Err() == nil {
		if copied.catchUp(b.ctx) != nil {
			continue
		}
		total := copied.balances.total(p.From.Customer)
		if total < p.Amount {
			o.Output, o.Return = paid{total: total}, b.now()
			b.note(o)
			return
		}
		err := copied.append(b.ctx, p)
		var refused *client.Error
		switch {
		case err == nil:
			o.Output, o.Return = paid{done: true, total: total}, b.now()
			b.note(o)
			return
		case errors.Is(err, client.ErrConflict):
			b.mu.Lock()
			b.conflicts++
			b.mu.Unlock()
		case !errors.As(err, &refused) || refused.Outcome != client.NotDone:
			o.Output = paid{unknown: true}
			b.note(o)
			return
		}
	}
}

// bankCopy is one writer's knowledge of the log.
type bankCopy struct {
	client   *client.Client
	balances balances
	next     int64 // offset of the first payment that is not in balances
	producer *client.Producer
}

// append appends a payment unless a record from next on touches one of the accounts of the customer who pays.
func (b *bankCopy) append(ctx context.Context, p payment) (err error) {
	if b.producer == nil {
		if b.producer, err = b.client.Producer(ctx, bankLog); err != nil {
			return err
		}
	}
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	read := []client.Header{account{p.From.Customer, 0}.header(), account{p.From.Customer, 1}.header()}
	record := client.Record{Value: value, Headers: []client.Header{p.From.header(), p.To.header()}}
	_, err = b.producer.AppendBatch(ctx, []client.Record{record}, client.WithCheck(client.Check{Since: b.next, Headers: read}))
	if err != nil && !errors.Is(err, client.ErrConflict) {
		b.close()
	}
	return err
}

// close ends the session of the copy; the next append begins another one.
func (b *bankCopy) close() {
	if b.producer == nil {
		return
	}
	ctx, cancel := WithPatience()
	defer cancel()
	_ = b.producer.Close(ctx)
	b.producer = nil
}

// catchUp takes in everything that had been acknowledged before the call.
func (b *bankCopy) catchUp(ctx context.Context) error {
	r, err := b.client.Reader(ctx, bankLog, client.WithStartOffset(b.next))
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		record, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var p payment
		if err := json.Unmarshal(record.Value, &p); err != nil {
			return err
		}
		b.balances.move(p)
		b.next = record.Offset + 1
	}
}
