package durablestreams

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// mode is how a read ends.
type mode int

const (
	catchUp  mode = iota // at the end of the log
	longPoll             // with the first records, or after pollTime
	events               // after eventsTime
)

// place is where a read begins.
type place struct {
	start, tail bool  // the log's, as it is
	offset      int64 // otherwise
}

// request is a read.
type request struct {
	mode   mode
	from   place
	cursor int64 // that the client has; 0: none
}

// parse returns the read that a query asks for. The error is for the client.
func parse(q url.Values) (request, error) {
	var r request
	switch live := q["live"]; {
	case len(live) == 0:
	case len(live) == 1 && live[0] == "long-poll":
		r.mode = longPoll
	case len(live) == 1 && live[0] == "sse":
		r.mode = events
	default:
		return r, errors.New("live must be long-poll or sse")
	}
	offsets := q["offset"]
	switch {
	case len(offsets) > 1:
		return r, errors.New("the request has more than one offset")
	case len(offsets) == 0 && r.mode != catchUp:
		return r, errors.New("a live read needs an offset: -1, now, or one from an earlier answer")
	case len(offsets) == 0 || offsets[0] == "-1":
		r.from.start = true
	case offsets[0] == "now":
		r.from.tail = true
	default:
		var err error
		if r.from.offset, err = parseOffset(offsets[0]); err != nil {
			return r, err
		}
	}
	if c := q.Get("cursor"); c != "" {
		r.cursor, _ = strconv.ParseInt(c, 10, 64) // one of another server's is none
	}
	return r, nil
}

// offsetDigits make offsets as text sort as numbers do.
const offsetDigits = 20

// formatOffset is an offset as clients keep it.
func formatOffset(offset int64) string { return fmt.Sprintf("%0*d", offsetDigits, offset) }

func parseOffset(text string) (int64, error) {
	offset, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) != offsetDigits {
		return 0, errors.New("the offset must be -1, now, or one from an earlier answer")
	}
	return int64(offset), nil
}

// Cursors count intervals since an epoch, so that a cache between here and a client does not return
// the same answer for ever.
const cursorInterval = 20 * time.Second

var cursorEpoch = time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)

// maxJitter is an hour of intervals.
const maxJitter = int64(time.Hour / cursorInterval)

// nextCursor is the cursor of an answer to a client that has one already. jitter is a random number.
func nextCursor(now time.Time, has, jitter int64) string {
	current := int64(now.Sub(cursorEpoch) / cursorInterval)
	if has >= current && has < 1<<52 {
		current = has + 1 + jitter%maxJitter
	}
	return strconv.FormatInt(current, 10)
}
