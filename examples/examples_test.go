package examples

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strandline.dev/client"
)

// process is a program that is started, killed and started again.
type process struct {
	t       *testing.T
	path    string
	args    []string
	command *exec.Cmd
	stdin   io.Writer
	stdout  *bufio.Reader
	stderr  bytes.Buffer
}

// programs holds what is built for all tests.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "strandline-examples-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// build compiles the server and the examples, once. The go command keeps what `go run` has linked,
// so that other test binaries share the server.
var build = sync.OnceValues(func() ([]byte, error) {
	for _, program := range []string{"cmd/strandline", "examples/ledger", "examples/map"} {
		out, err := exec.Command("go", "run", "-exec", "cp", "strandline.dev/"+program, programs+"/").CombinedOutput()
		if err != nil {
			return out, err
		}
	}
	return nil, nil
})

func start(t *testing.T, program string, args ...string) *process {
	out, err := build()
	require.NoError(t, err, "%s", out)
	p := &process{t: t, path: filepath.Join(programs, program), args: args}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.command = exec.Command(p.path, p.args...)
	p.command.Env = append(os.Environ(), "HOME="+p.t.TempDir())
	p.command.Stderr = &p.stderr
	stdin, err := p.command.StdinPipe()
	require.NoError(p.t, err)
	stdout, err := p.command.StdoutPipe()
	require.NoError(p.t, err)
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	require.NoError(p.t, p.command.Start())
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// send gives the program a command, and does not wait for what it does.
func (p *process) send(format string, args ...any) {
	_, err := fmt.Fprintf(p.stdin, format+"\n", args...)
	require.NoError(p.t, err)
}

// line returns the next line of the program.
func (p *process) line() string {
	line, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, "%s ended: %s", p.path, &p.stderr)
	return strings.TrimSuffix(line, "\n")
}

func (p *process) ask(format string, args ...any) string {
	p.send(format, args...)
	return p.line()
}

// serve starts a node on a port that it keeps over restarts.
func serve(t *testing.T) (server *process, address string) {
	out, err := build() // takes a while, in which another program could take the port
	require.NoError(t, err, "%s", out)
	l, err := net.Listen("tcp", fmt.Sprintf("127.37.%d.1:0", os.Getpid()%250)) // an address of this process alone
	require.NoError(t, err)
	address = l.Addr().String()
	require.NoError(t, l.Close())
	server = start(t, "strandline", "serve", "--json", "--data", t.TempDir(),
		"--grpc", address, "--http", "127.0.0.1:0", "--kafka", "none")
	server.line() // it serves
	return server, address
}

// restart kills a server and starts it again.
func (p *process) restart() {
	p.kill()
	p.start()
	p.line()
}

func TestTheMapSurvivesKillsOfTheServerAndOfTheProgram(t *testing.T) {
	server, address := serve(t)
	program := start(t, "map", "-server", address, "-snapshot-every", "10")
	random := rand.New(rand.NewPCG(1, 0))
	values := map[string]string{}
	for n := range 200 {
		key, value := fmt.Sprint("key", random.IntN(7)), fmt.Sprint(n)
		program.send("set %s %s", key, value)
		switch random.IntN(10) {
		case 0:
			server.restart() // before, while or after it takes the change
			require.Equal(t, "ok", program.line())
			values[key] = value
		case 1:
			program.kill()
			program.start()
			// Without an answer, either may be; what is read first stays.
			read := program.ask("get %s", key)
			require.Contains(t, []string{values[key], value}, read)
			values[key] = read
		default:
			require.Equal(t, "ok", program.line())
			values[key] = value
		}
	}
	other := start(t, "map", "-server", address)
	for key, value := range values {
		require.Equal(t, value, program.ask("get %s", key))
		require.Equal(t, value, other.ask("get %s", key), "another copy")
	}

	c, err := client.Dial([]string{address})
	require.NoError(t, err)
	defer c.Close()
	info, err := c.Admin().Info(t.Context(), "map")
	require.NoError(t, err)
	require.Positive(t, info.Start, "snapshots let the log be trimmed")
	require.Less(t, info.End-info.Start, int64(30))
}

func TestTheLedgerDoesEachCommandAtMostOnceAndSaysWhichItDid(t *testing.T) {
	server, address := serve(t)
	last := filepath.Join(t.TempDir(), "last")
	program := start(t, "ledger", "-server", address, "-last", last)
	require.Equal(t, "last: none", program.line())
	other := start(t, "ledger", "-server", address, "-last", last+"-other")
	require.Equal(t, "last: none", other.line())
	random := rand.New(rand.NewPCG(1, 0))
	accounts := []string{"alice", "bob", "carol"}
	balances := map[string]int{}
	move := func(from, to string, amount int) {
		if from != "" {
			balances[from] -= amount
		}
		balances[to] += amount
	}
	for n := 1; n <= 150; n++ {
		// Each amount is another one, so that "last" names one command.
		from, to := "", accounts[random.IntN(3)]
		command := fmt.Sprintf("deposit %s %d", to, n)
		if random.IntN(2) == 0 {
			from = accounts[random.IntN(3)]
			command = fmt.Sprintf("transfer %s %s %d", from, to, n)
		}
		if from == to {
			continue
		}
		affordable := from == "" || balances[from] >= n
		program.send("%s", command)
		switch random.IntN(8) {
		case 0:
			server.restart()
		case 1:
			program.kill()
			program.start()
			switch said := program.line(); said {
			case "last: " + command + ": committed":
				require.True(t, affordable)
				move(from, to, n)
			case "last: " + command + ": never":
			default: // it was killed before it sent this one
				require.NotContains(t, said, command)
			}
			continue
		}
		if answer := program.line(); affordable {
			require.Equal(t, "done", answer)
			move(from, to, n)
		} else {
			require.Contains(t, answer, "refused")
		}
	}
	for _, account := range accounts {
		require.GreaterOrEqual(t, balances[account], 0)
		require.Equal(t, fmt.Sprint(balances[account]), program.ask("balance %s", account))
		require.Equal(t, fmt.Sprint(balances[account]), other.ask("balance %s", account), "another copy")
	}
}

// Two copies decide at the same time on the same account: what one could spend, the other
// cannot spend again.
func TestTwoLedgersDoNotSpendTheSameMoney(t *testing.T) {
	_, address := serve(t)
	var copies []*process
	for i := range 2 {
		copies = append(copies, start(t, "ledger", "-server", address, "-last", filepath.Join(t.TempDir(), fmt.Sprint(i))))
		copies[i].line()
	}
	for round := range 20 {
		require.Equal(t, "done", copies[0].ask("deposit alice 10"))
		done := 0
		for _, c := range copies {
			c.send("transfer alice bob 10")
		}
		for _, c := range copies {
			if c.line() == "done" {
				done++
			}
		}
		require.Equal(t, 1, done)
		require.Equal(t, "0", copies[0].ask("balance alice"))
		require.Equal(t, fmt.Sprint(10*(round+1)), copies[1].ask("balance bob"))
	}
}
