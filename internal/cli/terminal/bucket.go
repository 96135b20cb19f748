package terminal

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"strandline.dev/internal/archive"
	"strandline.dev/internal/archive/filebucket"
	"strandline.dev/internal/archive/s3bucket"
	"strandline.dev/internal/vfs"
)

// OpenBucket returns the bucket at a URL: file:///DIRECTORY or s3://BUCKET/PREFIX. Endpoint, region and
// credentials of S3 come from the environment.
func OpenBucket(at string) (archive.Bucket, error) {
	parsed, err := url.Parse(at)
	if err != nil {
		// It is not shown: it may have a key.
		return nil, errors.New("this is no URL of an archive: use file:///DIRECTORY or s3://BUCKET/PREFIX")
	}
	switch {
	case parsed.Scheme == "s3":
		return s3bucket.New(parsed, os.Getenv)
	case parsed.Scheme == "file" && parsed.Host == "" && filepath.IsAbs(parsed.Path):
		return filebucket.New(vfs.OS(), filepath.Clean(parsed.Path)), nil
	}
	return nil, fmt.Errorf("%s is no archive: use file:///DIRECTORY or s3://BUCKET/PREFIX", parsed.Redacted())
}
