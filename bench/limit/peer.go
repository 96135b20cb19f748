package limit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
)

// addresses is the one line of JSON that a peer prints when it listens.
type addresses struct {
	TCP  string `json:"tcp"`
	GRPC string `json:"grpc"`
}

// Peer is the far end of the socket measurements, in a process of its own.
type Peer struct {
	tcp, grpc string
	command   *exec.Cmd
	stdin     io.Closer
}

// StartPeer runs a command that calls ServePeer, and waits until it listens.
func StartPeer(command *exec.Cmd) (*Peer, error) {
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the other end: %w", err)
	}
	p := &Peer{command: command, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("wait for the other end: %w", err)
	}
	var a addresses
	if err := json.Unmarshal(line, &a); err != nil {
		p.Close()
		return nil, fmt.Errorf("read the addresses of the other end: %w", err)
	}
	p.tcp, p.grpc = a.TCP, a.GRPC
	return p, nil
}

// Close ends the process and waits for it.
func (p *Peer) Close() error {
	p.stdin.Close()
	return p.command.Wait()
}

// ServePeer listens on loopback, prints its addresses to out and answers until
// in ends: a peer whose starter dies does not stay behind.
func ServePeer(in io.Reader, out io.Writer) error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer tcp.Close()
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := newGRPCServer()
	defer server.Stop()
	go serveTCP(tcp)
	go server.Serve(rpc)

	err = json.NewEncoder(out).Encode(addresses{TCP: tcp.Addr().String(), GRPC: rpc.Addr().String()})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
