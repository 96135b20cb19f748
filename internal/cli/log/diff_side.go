package log

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"strandline.dev/client"
	"strandline.dev/internal/cli/records"
	"strandline.dev/internal/cli/terminal"
	"strandline.dev/internal/node/stopped"
	"strandline.dev/internal/record"
)

// side is a log that is asked for digests; one of two that are compared.
type side interface {
	String() string
	digest(ctx context.Context, at int64) (client.Digest, error)
	prove(ctx context.Context, offset int64, trusted client.Digest) (client.Record, error)
	bounds(ctx context.Context) (start, end int64, err error)
	// records reads the records of [from, to). They are valid until the next.
	records(ctx context.Context, from, to int64) (recordReader, error)
	Close() error
}

// recordReader is read to io.EOF.
type recordReader interface {
	Next(ctx context.Context) (client.Record, error)
	Close() error
}

// servedSide is a log that nodes serve.
type servedSide struct {
	name       string
	connection *client.Client
	log        string
	alone      bool // the node that is dialled, and no other
}

func (s *servedSide) String() string { return s.name }
func (s *servedSide) Close() error   { return s.connection.Close() }

func (s *servedSide) digest(ctx context.Context, at int64) (client.Digest, error) {
	ask := s.connection.Digest
	if s.alone {
		ask = s.connection.KnownDigest
	}
	return ask(ctx, s.log, at)
}

func (s *servedSide) prove(ctx context.Context, offset int64, trusted client.Digest) (client.Record, error) {
	ask := s.connection.Prove
	if s.alone {
		ask = s.connection.ProveKnown
	}
	return ask(ctx, s.log, offset, trusted)
}

func (s *servedSide) bounds(ctx context.Context) (start, end int64, err error) {
	info, err := s.connection.Admin().Info(ctx, s.log)
	return info.Start, info.End, err
}

func (s *servedSide) records(ctx context.Context, from, to int64) (recordReader, error) {
	options := []client.ReaderOption{client.WithStartOffset(from), client.WithEndOffset(to)}
	if s.alone {
		options = append(options, client.WithAnyReplica())
	}
	return s.connection.Reader(ctx, s.log, options...)
}

// storedSide is a log in the directory of a node that is stopped.
type storedSide struct {
	name string
	*stopped.Log
}

func (s *storedSide) String() string { return s.name }

func (s *storedSide) digest(ctx context.Context, at int64) (client.Digest, error) {
	start, end, err := s.bounds(ctx)
	if err != nil {
		return client.Digest{}, err
	}
	if at == client.DigestAtEnd {
		at = end
	}
	t, err := s.Digest(ctx, record.Offset(at))
	if err != nil {
		return client.Digest{}, err
	}
	return client.Digest{
		Hash: t.Root(), At: at, From: int64(t.From), Covered: min(int64(t.End), at), Batches: int64(t.Batches), Start: start, End: end,
	}, nil
}

func (s *storedSide) prove(ctx context.Context, offset int64, trusted client.Digest) (client.Record, error) {
	r, err := s.Prove(ctx, record.Offset(offset), record.Offset(trusted.At), trusted.Hash)
	return records.FromStored(r), err
}

func (s *storedSide) bounds(context.Context) (start, end int64, err error) {
	from, to, err := s.Bounds()
	return int64(from), int64(to), err
}

func (s *storedSide) records(ctx context.Context, from, to int64) (recordReader, error) {
	return pulled(s.Records(ctx, record.Offset(from), record.Offset(to))), nil
}

// pulledRecords are those that an iterator yields.
type pulledRecords struct {
	next func() (record.Record, error, bool)
	stop func()
}

func pulled(all iter.Seq2[record.Record, error]) *pulledRecords {
	next, stop := iter.Pull2(all)
	return &pulledRecords{next, stop}
}

func (r *pulledRecords) Next(context.Context) (client.Record, error) {
	one, err, more := r.next()
	switch {
	case !more:
		return client.Record{}, io.EOF
	case err != nil:
		return client.Record{}, err
	}
	return records.FromStored(one), nil
}

func (r *pulledRecords) Close() error {
	r.stop()
	return nil
}

// openSides opens what the arguments name: two, or one and each of the others that it has.
// What is open is returned with an error, too.
func openSides(c *terminal.Terminal, ctx context.Context, args []string) (sides []side, err error) {
	for _, arg := range args {
		s, err := openSide(c, ctx, arg)
		if err != nil {
			return sides, err
		}
		sides = append(sides, s)
	}
	leader, served := sides[0].(*servedSide)
	if len(args) == 2 || !served || leader.alone {
		return sides, nil
	}
	info, err := leader.connection.Admin().Info(ctx, leader.log)
	if err != nil {
		return sides, err
	}
	for _, r := range info.Replicas {
		connection, err := connectTo(c, r.Address)
		if err != nil {
			return sides, err
		}
		s := &servedSide{name: leader.log + "@" + r.Node, connection: connection, log: leader.log, alone: true}
		if !r.Leader {
			sides = append(sides, s)
			continue
		}
		// Its digests and its records have to be those of one replica, also where another one leads meanwhile.
		_ = leader.Close()
		sides[0] = s
	}
	return sides, nil
}

// openSide opens LOG or LOG@WHERE.
func openSide(c *terminal.Terminal, ctx context.Context, arg string) (_ side, err error) {
	log, where, placed := strings.Cut(arg, "@")
	if strings.ContainsRune(where, filepath.Separator) || where == "." || where == ".." {
		return openStored(c, ctx, arg, log, where)
	}
	s := &servedSide{name: arg, log: log, alone: placed}
	if _, _, split := net.SplitHostPort(where); placed && split != nil {
		if where, err = addressOf(c, ctx, log, where); err != nil {
			return nil, err
		}
	}
	if placed {
		s.connection, err = connectTo(c, where)
	} else {
		s.connection, err = c.Connect()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openStored opens a directory, or a file.
func openStored(c *terminal.Terminal, ctx context.Context, name, log, path string) (side, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return openBackup(name, path)
	}
	logger := slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := stopped.OpenLog(ctx, filepath.Clean(path), log, logger)
	switch {
	case errors.Is(err, stopped.ErrRuns):
		return nil, terminal.Hinted(err, fmt.Sprintf("name the node instead: log diff %s@NODE ...\nor stop it, or give a copy of the directory made while the node was stopped", log))
	case err != nil:
		return nil, err
	}
	return &storedSide{name, l}, nil
}

// connectTo prepares a client for the node at an address alone.
func connectTo(c *terminal.Terminal, address string) (*client.Client, error) {
	one := *c
	one.Servers = []string{address}
	return one.Connect()
}

// addressOf returns the address of a node that has a replica of a log.
func addressOf(c *terminal.Terminal, ctx context.Context, log, node string) (address string, err error) {
	err = c.WithAdmin(func(admin *client.Admin) error {
		info, err := admin.Info(ctx, log)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(info.Replicas, func(r client.ReplicaAddress) bool { return r.Node == node })
		if at < 0 {
			return fmt.Errorf("%s is not a node with a replica of log %s, not HOST:PORT, and not a path, which contains a /", node, log)
		}
		address = info.Replicas[at].Address
		return nil
	})
	return address, err
}

// backupSide is a file that "strandline read -o raw" made: record batches, one after the other. They are
// not those that the log has, so it has no digests.
type backupSide struct {
	name       string
	file       *os.File
	start, end record.Offset // of the records in it
}

// errNoDigests is the answer of a side that can only be compared record by record.
var errNoDigests = errors.New("a backup has no digests")

func openBackup(name, path string) (*backupSide, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &backupSide{name: name, file: file}
	first := true
	err = s.walk(func(header record.Batch, _, _ int64) bool {
		if first {
			s.start, first = header.BaseOffset(), false
		}
		s.end = header.End()
		return true
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// walk calls visit with the header and the place of each batch, until that returns false.
func (s *backupSide) walk(visit func(header record.Batch, at, size int64) bool) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	header := make(record.Batch, record.BatchHeaderSize)
	end := record.Offset(0)
	for at := int64(0); at < info.Size(); {
		if _, err := s.file.ReadAt(header, at); err != nil && err != io.EOF {
			return err
		}
		size := 12 + int64(int32(binary.BigEndian.Uint32(header[8:])))
		whole := at+record.BatchHeaderSize <= info.Size()
		switch {
		case whole && (size < record.BatchHeaderSize || size > record.MaxBatchBytes || header.Count() <= 0 || header.BaseOffset() < end):
			return fmt.Errorf("%s has no batch at byte %d that continues the one before: it is damaged, or \"strandline read -o raw\" did not write it", s.file.Name(), at)
		case !whole || at+size > info.Size():
			return fmt.Errorf("%s ends in the middle of the batch at byte %d: it is incomplete, or \"strandline read -o raw\" did not write it", s.file.Name(), at)
		}
		if !visit(header, at, size) {
			return nil
		}
		end, at = header.End(), at+size
	}
	return nil
}

func (s *backupSide) String() string { return s.name }
func (s *backupSide) Close() error   { return s.file.Close() }

func (s *backupSide) digest(context.Context, int64) (client.Digest, error) {
	return client.Digest{}, errNoDigests
}

func (s *backupSide) prove(context.Context, int64, client.Digest) (client.Record, error) {
	return client.Record{}, errNoDigests
}

func (s *backupSide) bounds(context.Context) (start, end int64, err error) {
	return int64(s.start), int64(s.end), nil
}

func (s *backupSide) records(_ context.Context, from, to int64) (recordReader, error) {
	return pulled(s.all(record.Offset(from), record.Offset(to))), nil
}

// all yields the records of [from, to), and nothing behind an error. It has one batch in memory.
func (s *backupSide) all(from, to record.Offset) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		var memory []byte
		more := true
		err := s.walk(func(header record.Batch, at, size int64) bool {
			if header.End() <= from || header.BaseOffset() >= to {
				return header.BaseOffset() < to
			}
			if int64(cap(memory)) < size {
				memory = make([]byte, size)
			}
			batch := record.Batch(memory[:size])
			_, err := s.file.ReadAt(batch, at)
			if err == nil {
				err = batch.Check()
			}
			if err != nil {
				yield(record.Record{}, fmt.Errorf("%s, batch at byte %d: %w", s.file.Name(), at, err))
				more = false
				return false
			}
			for r, err := range batch.Records {
				if err == nil && (r.Offset < from || r.Offset >= to) {
					continue
				}
				if more = yield(r, err) && err == nil; !more {
					break
				}
			}
			return more
		})
		if err != nil && more {
			yield(record.Record{}, err)
		}
	}
}
