package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/examples/databases/drill"
	"strandline.dev/test/cluster"
)

var (
	kills = flag.Int("kv.kills", 8, "how often something is killed in TestNothingAcknowledgedIsLostWhileEverythingIsKilled")
	seed  = flag.Uint64("kv.seed", 1, "from which the kills are drawn")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// database is three replicas on a cluster of three nodes.
type database struct {
	t        *testing.T
	nodes    *cluster.Cluster
	program  string
	folder   string
	replicas [3]*drill.Process

	mu        sync.Mutex
	addresses [3]string // of the replicas; empty: it is down
	done      int       // changes that were acknowledged
	changed   *sync.Cond
	end       bool
}

func start(t *testing.T) *database {
	d := &database{t: t, program: drill.Build(t), nodes: drill.Cluster(t), folder: t.TempDir()}
	d.changed = sync.NewCond(&d.mu)
	t.Cleanup(d.stop)
	for i := range d.replicas {
		d.replicas[i] = drill.Start(t, d.program, "-server", strings.Join(d.nodes.Addresses(), ","), "-http", "127.0.0.1:0",
			"-name", fmt.Sprint("replica", i), "-data", d.data(i), "-snapshots", filepath.Join(d.folder, "snapshots"),
			"-snapshot-every", "50", "-digest-every", "64")
		d.announced(i)
	}
	return d
}

func (d *database) data(i int) string { return filepath.Join(d.folder, fmt.Sprint("data", i)) }

// announced waits until a replica serves.
func (d *database) announced(i int) {
	line, err := d.replicas[i].Line()
	require.NoError(d.t, err)
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "serving on "), ",")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addresses[i] = address
	d.changed.Broadcast()
}

func (d *database) kill(i int) {
	d.replicas[i].Kill()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addresses[i] = ""
}

func (d *database) restart(i int) {
	d.replicas[i].Restart()
	d.announced(i)
}

// somewhere returns the address of a replica that serves, or did until now. It waits for one.
func (d *database) somewhere(random *rand.Rand) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.end {
		var serving []string
		for _, address := range d.addresses {
			if address != "" {
				serving = append(serving, address)
			}
		}
		if len(serving) > 0 {
			return serving[random.IntN(len(serving))]
		}
		d.changed.Wait()
	}
	return d.addresses[random.IntN(len(d.addresses))]
}

// stop ends those who change the database.
func (d *database) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end = true
	d.changed.Broadcast()
}

// acknowledged counts a change.
func (d *database) acknowledged() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done++
	d.changed.Broadcast()
}

// await waits for more acknowledged changes.
func (d *database) await(more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for goal := d.done + more; d.done < goal && !d.end; {
		d.changed.Wait()
	}
}

func (d *database) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.end
}

// fail fails the test and ends it.
func (d *database) fail(format string, args ...any) {
	d.t.Errorf(format, args...)
	d.stop()
}

var errDown = errors.New("the replica is down")

// call makes a request and returns what answers it.
func (d *database) call(method, address, path, value string, headers ...string) (status int, text, version string, err error) {
	if address == "" {
		return 0, "", "", errDown
	}
	q, err := http.NewRequestWithContext(context.Background(), method, address+path, strings.NewReader(value))
	if err != nil {
		return 0, "", "", err
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", "", err
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	return r.StatusCode, string(all), r.Header.Get("ETag"), err
}

// write puts rising numbers under a key of its own, and reads each from another replica: what was acknowledged is
// there.
func (d *database) write(key string, random *rand.Rand) {
	acknowledged, attempted := 0, 0
	check := func(text string) {
		n, err := strconv.Atoi(text)
		if err != nil || n < acknowledged || n > attempted {
			d.fail("%s is %q, but %d was acknowledged, and %d the last that was sent", key, text, acknowledged, attempted)
		}
	}
	for !d.ended() {
		attempted++
		status, _, _, err := d.call(http.MethodPut, d.somewhere(random), "/keys/"+key, fmt.Sprint(attempted))
		if err == nil && status == http.StatusOK {
			acknowledged = attempted
			d.acknowledged()
		}
		status, text, _, err := d.call(http.MethodGet, d.somewhere(random), "/keys/"+key, "")
		if err == nil && status == http.StatusOK {
			check(text)
		}
	}
	for _, address := range d.addresses {
		_, text, _, err := d.call(http.MethodGet, address, "/keys/"+key, "")
		if err != nil {
			d.fail("read %s: %v", key, err)
		}
		check(text)
	}
}

// counts is how often increments of a number were acknowledged, and how often it is not known.
type counts struct{ acknowledged, unknown int }

// increment increments one number, which others do too, by comparing and setting it.
func (d *database) increment(random *rand.Rand) (c counts) {
	for !d.ended() {
		address := d.somewhere(random)
		status, text, version, err := d.call(http.MethodGet, address, "/keys/number", "")
		n, condition := 0, []string{"If-None-Match", "*"}
		switch {
		case err == nil && status == http.StatusOK:
			n, _ = strconv.Atoi(text)
			condition = []string{"If-Match", version}
		case err != nil || status != http.StatusNotFound:
			continue
		}
		status, text, _, err = d.call(http.MethodPut, address, "/keys/number", fmt.Sprint(n+1), condition...)
		switch {
		case err == nil && status == http.StatusOK:
			c.acknowledged++
			d.acknowledged()
		case err == nil && (status == http.StatusPreconditionFailed || status == http.StatusServiceUnavailable):
		case err == nil && status != http.StatusGatewayTimeout:
			d.fail("status %d: %s", status, text)
		default:
			c.unknown++
		}
	}
	return c
}

// toggle puts a key and deletes it.
func (d *database) toggle(random *rand.Rand) {
	for !d.ended() {
		_, _, _, _ = d.call(http.MethodPut, d.somewhere(random), "/keys/toggle", "on")
		_, _, _, _ = d.call(http.MethodDelete, d.somewhere(random), "/keys/toggle", "")
	}
}

// lastKey is what is changed last.
const lastKey = "last"

// watch follows the changes up to the last one, over the deaths of replicas, and returns the content that they make.
func (d *database) watch(random *rand.Rand) map[string]string {
	content, next := map[string]string{}, int64(0)
	for content[lastKey] == "" && !d.t.Failed() {
		next = d.follow(d.somewhere(random), next, content)
	}
	return content
}

// follow watches from an offset on one replica, until that ends or the last change has come.
func (d *database) follow(address string, next int64, content map[string]string) int64 {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/watch?from=%d", address, next), nil)
	if err != nil {
		d.fail("%v", err)
		return next
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return next
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for content[lastKey] == "" && lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			return next // a part of a line: the replica was killed
		}
		if e.Offset < next {
			d.fail("a watch from offset %d has the change at %d", next, e.Offset)
		}
		next = e.Offset + 1
		if e.Delete {
			delete(content, e.Key)
		} else {
			content[e.Key] = string(e.Value)
		}
	}
	return next
}

// killSomething kills something of one of four kinds, and starts it again.
func (d *database) killSomething(kind int, random *rand.Rand) string {
	i := random.IntN(len(d.replicas))
	switch kind {
	case 0:
		leader := d.nodes.AwaitLeader("kv")
		d.nodes.Node(leader).Kill()
		d.await(1 + random.IntN(20)) // with another leader
		d.nodes.Node(leader).Start()
		return "the leader"
	case 1:
		d.kill(i)
		d.restart(i)
		return "a replica"
	case 2:
		d.kill(i)
		require.NoError(d.t, os.RemoveAll(d.data(i)))
		d.restart(i)
		return "a replica, with its database"
	default:
		d.nodes.KillTogether(d.nodes.Nodes()...)
		for i := range d.replicas {
			d.kill(i)
		}
		d.nodes.StartTogether(d.nodes.Nodes()...)
		for i := range d.replicas {
			d.restart(i)
		}
		return "everything"
	}
}

func TestNothingAcknowledgedIsLostWhileEverythingIsKilled(t *testing.T) {
	d := start(t)
	drawn := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, stream)) }
	var working, watching sync.WaitGroup
	for i := range 2 {
		working.Go(func() { d.write(fmt.Sprint("writer", i), drawn(10+uint64(i))) })
	}
	var increments [2]counts
	for i := range increments {
		working.Go(func() { increments[i] = d.increment(drawn(20 + uint64(i))) })
	}
	working.Go(func() { d.toggle(drawn(30)) })
	var watched map[string]string
	watching.Go(func() { watched = d.watch(drawn(31)) })

	random, killed := drawn(0), map[string]int{}
	var kinds []int
	for i := range *kills {
		if i%4 == 0 {
			kinds = random.Perm(4)
		}
		d.await(20 + random.IntN(60))
		if t.Failed() {
			break
		}
		killed[d.killSomething(kinds[i%4], random)]++
	}
	d.await(20)
	d.stop()
	working.Wait()

	status, text, _, err := d.call(http.MethodPut, d.addresses[0], "/keys/"+lastKey, "end")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, text)
	watching.Wait()

	_, state, _, err := d.call(http.MethodGet, d.addresses[0], "/state", "")
	require.NoError(t, err)
	_, content, _, err := d.call(http.MethodGet, d.addresses[0], "/keys", "")
	require.NoError(t, err)
	for _, address := range d.addresses[1:] {
		_, other, _, err := d.call(http.MethodGet, address, "/state", "")
		require.NoError(t, err)
		require.Equal(t, state, other, "the same digest at the same offset")
		_, other, _, err = d.call(http.MethodGet, address, "/keys", "")
		require.NoError(t, err)
		require.Equal(t, content, other)
	}
	listed := map[string]string{}
	for line := range strings.Lines(content) {
		var i item
		require.NoError(t, json.Unmarshal([]byte(line), &i))
		listed[i.Key] = string(i.Value)
	}
	require.Equal(t, listed, watched)
	number, err := strconv.Atoi(listed["number"])
	require.NoError(t, err)
	sum := counts{increments[0].acknowledged + increments[1].acknowledged, increments[0].unknown + increments[1].unknown}
	require.GreaterOrEqual(t, number, sum.acknowledged, "an acknowledged increment was lost")
	require.LessOrEqual(t, number, sum.acknowledged+sum.unknown, "an increment was made twice")
	info, err := d.nodes.Client().Admin().Info(t.Context(), "kv")
	require.NoError(t, err)
	require.Positive(t, info.Start, "snapshots let the log be trimmed")
	t.Logf("killed: %v; %d changes acknowledged; increments: %+v; log from %d to %d", killed, d.done, sum, info.Start, info.End)
}

func TestTheCommandsOfTheREADMEWork(t *testing.T) {
	host := drill.Host()
	p := drill.Run(t, host, "HTTP="+host+":808")
	for range 3 {
		line, err := p.Line()
		require.NoError(t, err)
		require.Contains(t, line, "serving on http://"+host)
	}
	script := strings.ReplaceAll(drill.Blocks(t, "sh")[0], "127.0.0.1:808", host+":808")
	var answers []string
	for line := range strings.Lines(script) {
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Replace(line, "curl ", "curl -sS ", 1)).Output()
		require.NoError(t, err, "%s%s", line, out)
		answers = append(answers, string(out))
	}
	for i, part := range []string{
		`{"offset":0,"changed":true,"version":0}`, "Etag: \"0\"", `{"offset":1,"changed":true,"version":1}`, `{"offset":2,"changed":false,"version":1}`,
		`{"offset":3,"changed":true,"version":-1}`, `{"offset":3,"key":"color","delete":true}`,
	} {
		require.Contains(t, answers[i], part)
	}
	require.Equal(t, 3, strings.Count(answers[5], "\n"), answers[5])
}
