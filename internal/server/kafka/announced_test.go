package kafkaserver

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"strandline.dev/internal/budget"
	"strandline.dev/internal/cluster/access"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
	"strandline.dev/internal/server/guard"
)

// announce serves a connection whose client says that a request of so many bytes follows, after
// a login if there is one, and sends a byte of it. When it returns the server has taken that byte,
// or has closed the connection.
func (d *testServer) announce(key, version int16, size int, user, password string) (taken bool) {
	client, server := net.Pipe()
	d.Cleanup(func() { _ = client.Close() })
	c := newConnection(d.server, server)
	go c.serve()
	if user != "" {
		r := &raw{TB: d.TB, Conn: client}
		r.login(user, password)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(size))
	head = binary.BigEndian.AppendUint32(head, uint32(key)<<16|uint32(version))
	if _, err := client.Write(append(head, 0, 0, 0, 1)); err != nil {
		return false
	}
	// The reader has its first bytes; whoever reads on has admitted the request.
	_, err := client.Write([]byte{0})
	return err == nil
}

// What clients have only announced takes nothing of the memory that finished requests need: neither by
// those who have not logged in, nor by those who may do nothing, nor by those who may do something of their own.
func TestWhatIsOnlyAnnouncedKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), Options{Memory: budget.New(256 << 20)})
	d.create("orders", 1)
	d.create("mallorys", 1)
	g := guard.New(d.node, guard.Options{})
	passwords := map[string]string{}
	for _, user := range []string{"bob", "mallory", "alice"} {
		var err error
		passwords[user], _, err = g.PutUser(t.Context(), verbs.Caller{}, user, "")
		require.NoError(t, err)
	}
	for user, log := range map[string]string{"mallory": "mallorys", "alice": "orders"} {
		require.NoError(t, g.AddGrants(t.Context(), verbs.Caller{}, []access.Grant{{Principal: "user/" + user, Rights: access.Append, On: access.OfLog(log)}}))
	}
	require.NoError(t, g.EnforceRights(t.Context(), verbs.Caller{}, true, "user/root"))
	unused := func() {
		t.Helper()
		for _, part := range d.server.options.Memory.Use() {
			if part.Part != "kafka arriving" && part.Part != "kafka groups" && part.Part != "sessions" && part.Part != "tails" {
				require.Zero(t, part.Used, part.Part)
			}
		}
	}
	anybody := []int16{apiVersionsKey, kmsg.SASLHandshake.Int16(), kmsg.SASLAuthenticate.Int16()}
	for _, key := range anybody {
		for range 20 {
			require.True(t, d.announce(key, 0, proveBytes-100, "", ""))
		}
	}
	require.Zero(t, d.server.options.Memory.Arriving.Used())
	unused()
	for key := range needs {
		version := apis[key.Int16()].max
		d.announce(key.Int16(), version, smallRequest, "bob", passwords["bob"])
		require.False(t, d.announce(key.Int16(), version, smallRequest+1, "bob", passwords["bob"]), "%s of one who may do nothing", key.Name())
	}
	unused()
	size := d.server.requests.Size()
	for arriving := int64(0); arriving < size/2; arriving += 1 << 20 {
		require.True(t, d.announce(produceKey, 9, 1<<20-64, "mallory", passwords["mallory"]))
	}
	require.True(t, d.announce(produceKey, 9, MaxProduceBytes, "mallory", passwords["mallory"]))
	require.GreaterOrEqual(t, d.server.options.Memory.Arriving.Used(), d.server.options.Memory.Arriving.Size()/2-1<<20)
	unused()
	c := d.raw()
	c.login("alice", passwords["alice"])
	answer := c.produce("orders", acksAll, batchOf(t, record.None, string(make([]byte, 1<<20))))
	require.Zero(t, answer.ErrorCode)
}
