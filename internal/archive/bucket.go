package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Bucket stores named objects outside of the cluster. Its methods may be called concurrently. Their
// errors are those below, or wrapped in an *Error.
type Bucket interface {
	// Get returns an object of at most limit bytes and its version. The error is ErrNotFound if there
	// is none, and ErrTooLarge if it has more bytes.
	Get(ctx context.Context, name string, limit int64) (data []byte, version string, err error)
	// Put writes an object and returns its version. It does so only if the object has the version
	// given, or, if that is empty, if there is no such object; otherwise the error is ErrChanged and
	// nothing has changed. After any other error the object may have been written.
	Put(ctx context.Context, name string, data []byte, version string) (written string, err error)
	// List returns the names of all objects that begin with prefix and end with suffix, in any order.
	// Objects that were written recently may be missing.
	List(ctx context.Context, prefix, suffix string) ([]string, error)
	// String returns where the bucket is, without credentials.
	String() string
}

var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("no such object")
	// ErrChanged means that another program has written the object.
	ErrChanged = errors.New("the object was written by another program")
	// ErrTooLarge means that an object has more bytes than any that this program writes.
	ErrTooLarge = errors.New("the object is too large")
)

// Error is a failure of a bucket.
type Error struct {
	Op   string // get, put or list
	Name string
	Err  error
	// Refused means that the bucket refuses the call: trying again is of no use before the
	// credentials, their rights or the configuration of the bucket change.
	Refused bool
}

func (e *Error) Error() string {
	advice := "try again"
	switch {
	case e.Refused:
		advice = "check the credentials, their rights and the name of the bucket, then try again"
	case e.Op == "put":
		advice = "it may have been written; try again"
	}
	return fmt.Sprintf("%s %s in the archive: %v (%s)", e.Op, e.Name, e.Err, advice)
}

func (e *Error) Unwrap() error { return e.Err }

// Missing reports whether an error means that an object does not exist.
func Missing(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) }
