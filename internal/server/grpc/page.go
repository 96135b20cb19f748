package grpcserver

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

const (
	// maxPageBytes bounds about the logs of one answer to a caller that asks for a list in parts.
	maxPageBytes = 4 << 20
	// maxListBytes bounds those of an answer with all logs: callers take answers of 64 MiB at most.
	maxListBytes = rpc.MaxRequestBytes - 1<<20
)

// pageOf encodes the logs with names greater than after in the order of their names, as many as one answer
// has room for. A limit of 0 demands all of them in this answer: a caller that knows of no parts would take
// the first one for the whole list. Next is where the next part continues; empty: there are no more.
func pageOf[T any, M proto.Message](all []T, name func(T) string, encode func(T) M, after string, limit int32) (page []M, next string, refusal *record.Refusal) {
	if limit < 0 {
		return nil, "", record.Refuse(record.Invalid, "a limit of %d", limit)
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	size := 0
	for i, one := range all {
		if name(one) <= after {
			continue
		}
		message := encode(one)
		size += proto.Size(message)
		if limit == 0 && size > maxListBytes {
			return nil, "", record.Refuse(record.TooLarge, "a list of %d logs is larger than one answer may be: ask for it in parts, with limit and after", len(all))
		}
		if limit > 0 && len(page) > 0 && (len(page) == int(limit) || size > maxPageBytes) {
			return page, name(all[i-1]), nil
		}
		page = append(page, message)
	}
	return page, "", nil
}
