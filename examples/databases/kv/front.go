package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"strandline.dev/client"
	"strandline.dev/statemachine"
)

const (
	// maxValue bounds a value, in bytes.
	maxValue = 1 << 20
	// maxWait bounds how long a request waits for the log. One that watches has no limit.
	maxWait = 30 * time.Second
	// maxListed is how many keys one answer has.
	maxListed = 1_000
	// maxEvents is how many changes are read at a time for one who watches.
	maxEvents = 100
)

// front answers requests over HTTP.
type front struct {
	store   *store
	replica *statemachine.Replica[result]
}

func (f *front) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys/{key...}", f.get)
	mux.HandleFunc("PUT /keys/{key...}", f.change)
	mux.HandleFunc("DELETE /keys/{key...}", f.change)
	mux.HandleFunc("GET /keys", f.list)
	mux.HandleFunc("GET /watch", f.watch)
	mux.HandleFunc("GET /state", f.state)
	return mux
}

// freshness returns what a read wants: linearizable, or with ?stale what is here, or with ?from=N at least the
// records below N.
func freshness(r *http.Request) (statemachine.Freshness, error) {
	q := r.URL.Query()
	switch {
	case q.Has("stale"):
		return statemachine.AsApplied, nil
	case q.Has("from"):
		next, err := strconv.ParseInt(q.Get("from"), 10, 64)
		return statemachine.AtLeast(next), err
	default:
		return statemachine.Linearizable, nil
	}
}

func (f *front) get(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	fresh, err := freshness(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var e entry
	var found bool
	var failed error
	err = f.replica.Query(ctx, fresh, func() { e, found, failed = f.store.lookup([]byte(r.PathValue("key"))) })
	switch err = errors.Join(err, failed); {
	case err != nil:
		refuse(w, err)
	case !found:
		http.Error(w, "no such key", http.StatusNotFound)
	default:
		w.Header().Set("ETag", etag(e.Version))
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(e.Value)
	}
}

// list sends the keys with a prefix, in their order, as lines of JSON. One that wants more than an answer has gives the
// last key as after. The header Next is the offset from which to watch for what comes later.
func (f *front) list(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	fresh, err := freshness(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var found []item
	var next int64
	var failed error
	err = f.replica.Query(ctx, fresh, func() {
		next = f.replica.Offset()
		found, failed = f.store.list(r.URL.Query().Get("prefix"), r.URL.Query().Get("after"), maxListed)
	})
	if err = errors.Join(err, failed); err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Next", strconv.FormatInt(next, 10))
	out := json.NewEncoder(w)
	for _, i := range found {
		if out.Encode(i) != nil {
			return
		}
	}
}

func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }

// condition returns that of a change, in HTTP's own form.
func condition(r *http.Request) (string, error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "" || none != "" && none != "*":
		return "", errors.New(`give If-Match: "VERSION" or If-None-Match: *`)
	case none == "*":
		return ifAbsent, nil
	case match == "":
		return "", nil
	}
	version, err := strconv.ParseInt(strings.Trim(match, `"`), 10, 64)
	if err != nil || match != etag(version) {
		return "", errors.New(`give If-Match: "VERSION", with the version of the key as ETag has it`)
	}
	return strconv.FormatInt(version, 10), nil
}

// change puts or deletes a key.
func (f *front) change(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	wanted, err := condition(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxValue))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	c := command{delete: r.Method == http.MethodDelete, condition: wanted}
	applied, err := f.replica.Propose(ctx, c.record([]byte(r.PathValue("key")), value))
	if err != nil {
		refuse(w, err)
		return
	}
	if applied.Result.Version >= 0 {
		w.Header().Set("ETag", etag(applied.Result.Version))
	}
	status := http.StatusOK
	if !applied.Result.Changed && wanted != "" {
		status = http.StatusPreconditionFailed
	}
	answer(w, status, struct {
		Offset int64 `json:"offset"`
		result
	}{applied.Offset, applied.Result})
}

// refuse answers with an error, which says whether the change was made: 503 that it was not and never will be, so
// that it can be sent again, and 504 that it may be.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusGatewayTimeout
	var refused *client.Error
	var here *statemachine.Error
	if errors.As(err, &refused) && refused.Outcome == client.NotDone || errors.As(err, &here) && here.Outcome == client.NotDone {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), status)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// watch sends every change from an offset on, of keys with a prefix, as lines of JSON, until its client leaves. It
// waits for the records to come by asking for a state that has them.
func (f *front) watch(w http.ResponseWriter, r *http.Request) {
	prefix := r.URL.Query().Get("prefix")
	next := f.replica.Offset()
	if from := r.URL.Query().Get("from"); from != "" {
		var err error
		if next, err = strconv.ParseInt(from, 10, 64); err != nil || next < 0 {
			http.Error(w, "from is an offset", http.StatusBadRequest)
			return
		}
	}
	begun := false
	for {
		var found []event
		var forgotten, applied int64
		var failed error
		fresh := statemachine.AtLeast(next + 1)
		if !begun {
			fresh = statemachine.AsApplied
		}
		err := f.replica.Query(r.Context(), fresh, func() {
			// The offset of the replica also counts records that Apply does not get.
			forgotten, applied = f.store.at.Forgotten, f.replica.Offset()
			found, failed = f.store.changes(next, maxEvents)
		})
		if err = errors.Join(err, failed); err != nil {
			return // the client has left, or the replica has stopped: it continues on another one
		}
		if next < forgotten {
			if !begun {
				http.Error(w, fmt.Sprintf("changes below offset %d are forgotten: read all keys with GET /keys, and watch from the Next of its first answer", forgotten), http.StatusGone)
			}
			return
		}
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.WriteHeader(http.StatusOK)
			begun = true
		}
		out := json.NewEncoder(w)
		for _, e := range found {
			if strings.HasPrefix(e.Key, prefix) {
				if err := out.Encode(e); err != nil {
					return
				}
			}
		}
		_ = http.NewResponseController(w).Flush()
		if len(found) == maxEvents {
			next = found[len(found)-1].Offset + 1
		} else {
			next = max(next, applied)
		}
	}
}

// state says up to which offset records are applied, with everything that was acknowledged before, and the digest of
// all keys. Replicas with the same offset have the same digest.
func (f *front) state(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	var at position
	if err := f.replica.Query(ctx, statemachine.Linearizable, func() { at = f.store.at }); err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"next": at.Next, "digest": hex.EncodeToString(at.Sum.bytes())})
}
