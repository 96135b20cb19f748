package bench

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"strandline.dev/bench/driver"
	"strandline.dev/bench/limit"
	"strandline.dev/bench/report"
	"strandline.dev/internal/cli/terminal"
)

// The names of the socket limits in results.
const (
	tcpEcho    = "tcp_echo"
	tcpStream  = "tcp_stream"
	grpcEcho   = "grpc_echo"
	grpcStream = "grpc_stream"
)

// echoStreams is how many round trips are outstanding in the gRPC echo, over
// all connections: as many as bench appends has workers.
const echoStreams = 128

func newBenchLimits(c *terminal.Terminal) *cobra.Command {
	var (
		common benchFlags
		target string
	)
	command := &cobra.Command{
		Use:   "limits",
		Short: "Measure the limits of this machine: disk, TCP, plain gRPC",
		Long: `Measure the limits of this machine without a log:

  fdatasync    write and fdatasync into a zero-filled file
  cat          read the server's segments (--data), cached and from the disk
  tcp_echo     send 2 KiB and receive 16 bytes, one outstanding on each connection
  grpc_echo    the same over plain gRPC, on 128 streams in total
  tcp_stream   receive bytes from another process
  grpc_stream  receive messages of 1 MiB from another process, a stream a connection

The other end of the connections is a process of its own, as a server is. --target
selects the files for the first two: for strandline:// at --server those of --data, for
any other target the directory in its data=DIR.`,
		Example: "  strandline bench limits\n  strandline bench limits --json --duration 5s",
		Args:    terminal.Named(),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkSpan(command, common.span); err != nil {
				return err
			}
			var err error
			if common.data, err = limitsData(c, command, common, target); err != nil {
				return err
			}
			run, err := startBench(c, command.Context(), common, 1)
			if err != nil {
				return err
			}
			return run.finish(run.limits())
		},
	}
	common.register(command.Flags())
	command.Flags().StringVar(&target, "target", "", "`address` of the node whose disk is measured (default strandline:// at --server)")
	spanFlags(command.Flags(), &common.span, defaultSpan)
	return command
}

// limitsData is the directory whose disk is measured, or nothing for the one that
// the command runs on.
func limitsData(c *terminal.Terminal, command *cobra.Command, common benchFlags, target string) (string, error) {
	if target == "" {
		return common.serverData(c.Servers), nil
	}
	address, err := driver.ParseAddress(target)
	switch {
	case err != nil:
		return "", terminal.Misused(command, "%w", err)
	case isServer(c, address) && address.Data == "":
		return common.serverData(c.Servers), nil
	case address.Data == "":
		return "", terminal.Misused(command, "--target %s: add data=DIR, the directory of its files on this machine", target)
	case !terminal.IsDirectory(address.Data):
		return "", terminal.Misused(command, "data=%s: no such directory", address.Data)
	}
	return address.Data, terminal.Useless(command, "with a --target that names data=DIR", "data")
}

func (b *bench) limits() error {
	if err := b.diskLimits(); err != nil {
		return err
	}
	return b.withPeer(func(peer *limit.Peer) error {
		for _, n := range []int{1, 128} {
			rate, err := measure(b, tcpEcho, n, func() (limit.Rate, error) { return peer.TCPEcho(b.ctx, n, b.span) })
			if err := b.row(err, report.Echo(tcpEcho, n, rate)); err != nil {
				return err
			}
		}
		for _, n := range []int{1, 8, 128} {
			if _, err := b.grpcEcho(peer, n, echoStreams); err != nil {
				return err
			}
		}
		moved, err := measure(b, tcpStream, 1, func() (limit.Throughput, error) { return peer.TCPStream(b.ctx, 1, b.span) })
		if err := b.row(err, report.Stream(tcpStream, 1, moved)); err != nil {
			return err
		}
		for _, n := range []int{1, 4} {
			if _, err := b.grpcStream(peer, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) diskLimits() error {
	for _, bytes := range []int{2 << 10, 256 << 10} {
		p := b.terminal.NewProgress(true, fmt.Sprintf("fdatasync of %v", terminal.Size(bytes)), b.span.Duration.Milliseconds(), terminal.UnitNone)
		stop := p.FollowClock()
		cost, err := b.scratch.Sync(b.ctx, bytes, b.span.Duration)
		stop()
		p.Close()
		if err := b.row(err, report.Fdatasync(cost)); err != nil {
			return err
		}
	}
	files, err := b.segments()
	if err != nil || len(files) == 0 {
		return err
	}
	if err := b.suite.CatFiles(b.ctx, files, report.Uncached); err != nil {
		return err
	}
	return b.suite.CatFiles(b.ctx, files, report.Cached)
}

// segments lists the server's files, or nothing if they cannot be read from here.
func (b *bench) segments() ([]string, error) {
	if b.fleetDisk != "" {
		return nil, nil // nothing is there yet
	}
	if b.data == "" {
		note(b.terminal, "the server's files are out of reach: give --data to measure reading them")
		return nil, nil
	}
	files, err := limit.Segments(b.data)
	if err == nil && len(files) == 0 {
		note(b.terminal, "no segments below %s", b.data)
	}
	return files, err
}

// row writes a figure that was measured to its end. Of an incomplete measurement it
// writes nothing.
func (b *bench) row(err error, r report.Row) error {
	if err != nil {
		return err
	}
	return b.writer.Row(r)
}

// grpcEcho measures one limit and writes its row.
func (b *bench) grpcEcho(peer *limit.Peer, connections, streams int) (limit.Rate, error) {
	rate, err := measure(b, grpcEcho, connections, func() (limit.Rate, error) {
		return peer.GRPCEcho(b.ctx, connections, streams, b.span)
	})
	return rate, b.row(err, report.Echo(grpcEcho, connections, rate))
}

// grpcStream measures one limit and writes its row.
func (b *bench) grpcStream(peer *limit.Peer, connections int) (limit.Throughput, error) {
	moved, err := measure(b, grpcStream, connections, func() (limit.Throughput, error) {
		return peer.GRPCStream(b.ctx, connections, b.span)
	})
	return moved, b.row(err, report.Stream(grpcStream, connections, moved))
}

// measure shows a bar while something is measured that reports nothing before
// it ends.
func measure[R any](b *bench, name string, connections int, run func() (R, error)) (R, error) {
	whole := b.span.Warmup + b.span.Duration
	p := b.terminal.NewProgress(true, fmt.Sprintf("%s, connections: %d", name, connections), whole.Milliseconds(), terminal.UnitNone)
	defer p.Close()
	stop := p.FollowClock()
	defer stop()
	return run()
}

// withPeer runs the far end of the socket limits in a process of its own: this
// program again, with a hidden command.
func (b *bench) withPeer(do func(*limit.Peer) error) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(executable, "bench", "peer")
	command.Stderr = b.terminal.Err
	// The peer's settings are none, and Ctrl-C is for us alone to handle: the
	// peer ends when its input does.
	command.Env = []string{}
	terminal.IgnoreInterrupts(command)
	peer, err := limit.StartPeer(command)
	if err != nil {
		return err
	}
	return cmp.Or(do(peer), peer.Close())
}

func newBenchPeer(c *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "peer",
		Short:   "Run the other end of the connections of \"bench limits\"",
		Example: "  strandline bench peer < /dev/null",
		Hidden:  true,
		Args:    terminal.Named(),
		RunE:    func(*cobra.Command, []string) error { return limit.ServePeer(c.In, c.Out) },
	}
}
