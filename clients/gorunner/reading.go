package gorunner

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"strandline.dev/client"
)

// reading is a reader with what its handlers were called with.
type reading struct {
	*client.Reader
	mu          sync.Mutex    // guards the rest
	offset, end int64         // of the newest progress
	moved       chan struct{} // closed when there is more
	failed      []int64
}

func newReading() *reading { return &reading{moved: make(chan struct{}), failed: []int64{}} }

func (r *reading) progress(offset, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset, r.end = offset, end
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *reading) leaveOut(offset int64, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, offset)
}

// progressTime bounds the wait for progress.
const progressTime = 30 * time.Second

// await waits until the progress has reached an offset.
func (r *reading) await(ctx context.Context, offset int64) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, progressTime)
	defer cancel()
	for {
		r.mu.Lock()
		at, end, moved := r.offset, r.end, r.moved
		r.mu.Unlock()
		if at >= offset {
			return map[string]any{"offset": at, "end": end}, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read reads count records, or to the end of the read.
func (r *reading) read(ctx context.Context, count int) (any, error) {
	offsets, times := []int64{}, []int64{}
	var values, keys, headers []*string
	for ended := false; ; {
		var err error
		var next client.Record
		if len(values) < count {
			next, err = r.Next(ctx)
		}
		if errors.Is(err, io.EOF) {
			ended, err = true, nil
		}
		if err != nil && len(values) == 0 {
			return nil, err
		}
		if ended || err != nil || len(values) == count {
			r.mu.Lock()
			defer r.mu.Unlock()
			answer := map[string]any{
				"offsets": offsets, "values": listed(values), "keys": listed(keys), "headers": listed(headers), "times": times,
				"ended": ended, "log_id": r.LogID(), "next": r.Offset(), "end": r.End(), "age_ms": nil, "failed": slices.Clone(r.failed),
			}
			if age, known := r.Age(); known {
				answer["age_ms"] = age.Seconds() * 1000
			}
			if err != nil {
				answer["then"] = failed(err)
			}
			return answer, nil
		}
		offsets, times = append(offsets, next.Offset), append(times, next.Timestamp.UnixMilli())
		values, keys, headers = append(values, text(next.Value)), append(keys, text(next.Key)), append(headers, named(next.Headers))
	}
}

// leaveLoop reads a log as a program does that has found what it looks for in the first record.
func leaveLoop(ctx context.Context, of *client.Client, c command) (any, error) {
	reader, err := of.Reader(ctx, c.Log, c.readerOptions()...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	first, err := reader.Next(ctx)
	return map[string]any{"value": text(first.Value)}, err
}

// listed is a list that is never null.
func listed(all []*string) []*string { return append([]*string{}, all...) }

// text is that of bytes, and null of none.
func text(bytes []byte) *string {
	if bytes == nil {
		return nil
	}
	return new(string(bytes))
}

func named(all []client.Header) *string {
	if len(all) == 0 {
		return nil
	}
	var words []string
	for _, h := range all {
		words = append(words, h.Key+"="+string(h.Value))
	}
	return new(strings.Join(words, ","))
}

// selection is what a reader wants of the records.
type selection struct {
	Keys       []string          `json:"keys"`
	Prefixes   []string          `json:"prefixes"`
	Headers    map[string]string `json:"headers"`
	Where      string            `json:"where"`
	SkipFailed bool              `json:"skip_failed"`
	Drop       []string          `json:"drop"`
	ValueBytes int64             `json:"value_bytes"`
	JSONFields []string          `json:"json_fields"`
}

func (s selection) options(r *reading) (all []client.ReaderOption) {
	if s.Keys != nil || s.Prefixes != nil || s.Headers != nil || s.Where != "" {
		f := client.Filter{Keys: bytesOf(s.Keys), KeyPrefixes: bytesOf(s.Prefixes), Headers: headersOf(s.Headers), Where: s.Where}
		if s.SkipFailed {
			f.OnFailed = r.leaveOut
		}
		all = append(all, client.WithFilter(f))
	}
	if s.Drop != nil || s.ValueBytes != 0 || s.JSONFields != nil {
		drop := func(what string) bool { return slices.Contains(s.Drop, what) }
		all = append(all, client.WithProjection(client.Projection{
			DropKey: drop("key"), DropValue: drop("value"), DropHeaders: drop("headers"), ValueBytes: s.ValueBytes, JSONFields: s.JSONFields,
		}))
	}
	return append(all, client.WithProgressHandler(r.progress))
}

func headersOf(all map[string]string) (headers []client.Header) {
	for name, value := range all {
		headers = append(headers, client.Header{Key: name, Value: []byte(value)})
	}
	return headers
}

func bytesOf(all []string) (bytes [][]byte) {
	for _, s := range all {
		bytes = append(bytes, []byte(s))
	}
	return bytes
}
