package grpcserver

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"strandline.dev/internal/record"
	"strandline.dev/internal/server/rpc"
)

const (
	// maxPageBytes is the approximate size limit of one answer to a caller that requests a list in
	// parts.
	maxPageBytes = 4 << 20
	// maxListBytes is the size limit of an answer with all logs: callers accept answers of at most
	// 64 MiB.
	maxListBytes = rpc.MaxRequestBytes - 1<<20
)

// pageOf encodes the logs with names greater than after, in the order of their names, as many as
// fit into one answer. A limit of 0 requires all of them in this answer, because a caller that does
// not know about parts would take the first part for the whole list. next is the name after which
// the next part starts; it is empty if there are no more logs.
func pageOf[T any, M proto.Message](all []T, name func(T) string, encode func(T) M, after string, limit int32) (page []M, next string, refusal *record.Refusal) {
	if limit < 0 {
		return nil, "", record.Refuse(record.Invalid, "the limit %d is below 0", limit)
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
			return nil, "", record.Refuse(record.TooLarge, "a list of %d logs is too large for one answer: request it in parts, with limit and after", len(all))
		}
		if limit > 0 && len(page) > 0 && (len(page) == int(limit) || size > maxPageBytes) {
			return page, name(all[i-1]), nil
		}
		page = append(page, message)
	}
	return page, "", nil
}
