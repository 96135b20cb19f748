// Package s3bucket keeps an archive in a bucket of S3, or of a server that speaks S3's protocol with
// conditional puts.
package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"strandline.dev/internal/archive"
)

// Bucket is a bucket of S3. It does not repeat a call: its caller does.
type Bucket struct {
	core   minio.Core
	bucket string
	prefix string // empty, or ends with a slash
}

// New returns the bucket at s3://BUCKET/PREFIX. Endpoint, region and credentials are those of the
// environment, as Amazon's programs use them: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the file
// ~/.aws/credentials, or the role of the machine.
func New(at *url.URL, getenv func(string) string) (*Bucket, error) {
	if at.Host == "" || at.User != nil || at.RawQuery != "" {
		return nil, fmt.Errorf("the archive must be s3://BUCKET/PREFIX, without user and parameters")
	}
	endpoint, err := url.Parse(cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.User != nil ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.RawQuery != "" {
		return nil, errors.New("AWS_ENDPOINT_URL must be http://HOST:PORT or https://HOST:PORT, without a path")
	}
	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: endpoint.Scheme == "https", Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")), MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the archive at %s: %w", at.Redacted(), err)
	}
	b := &Bucket{core: *core, bucket: at.Host, prefix: strings.Trim(at.Path, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	return b, nil
}

// String implements archive.Bucket.
func (b *Bucket) String() string { return "s3://" + b.bucket + "/" + b.prefix }

// Get implements archive.Bucket.
func (b *Bucket) Get(ctx context.Context, name string, limit int64) ([]byte, string, error) {
	body, info, _, err := b.core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", failed("get", name, err)
	}
	defer body.Close()
	if info.Size > limit {
		return nil, "", fmt.Errorf("%s: %w", name, archive.ErrTooLarge)
	}
	// The buffer grows with the bytes that arrive, not with the size that the answer claims.
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, "", failed("get", name, err)
	case int64(len(data)) > limit:
		return nil, "", fmt.Errorf("%s: %w", name, archive.ErrTooLarge)
	case info.Size >= 0 && int64(len(data)) != info.Size:
		return nil, "", failed("get", name, io.ErrUnexpectedEOF)
	}
	return data, info.ETag, nil
}

// Put implements archive.Bucket.
func (b *Bucket) Put(ctx context.Context, name string, data []byte, version string) (string, error) {
	o := minio.PutObjectOptions{DisableMultipart: true}
	if version == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(version)
	}
	info, err := b.core.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), "", "", o)
	if err != nil && version != "" && errors.Is(failed("get", name, err), archive.ErrNotFound) { // the object whose version was expected is gone
		return "", fmt.Errorf("%s: %w", name, archive.ErrChanged)
	}
	if err != nil {
		return "", failed("put", name, err)
	}
	if info.ETag == "" {
		return "", failed("put", name, errors.New("the answer has no ETag"))
	}
	return info.ETag, nil
}

// List implements archive.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, suffix string) (names []string, err error) {
	for info := range b.core.Client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, failed("list", prefix, info.Err)
		}
		if strings.HasSuffix(info.Key, suffix) {
			names = append(names, strings.TrimPrefix(info.Key, b.prefix))
		}
	}
	return names, nil
}

// failed turns an error into one of archive's.
func failed(op, name string, err error) error {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return &archive.Error{Op: op, Name: name, Err: err}
	}
	missing := answer.StatusCode == http.StatusNotFound && answer.Code != "NoSuchBucket"
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", name, archive.ErrChanged)
	case missing && op != "put":
		return fmt.Errorf("%s: %w", name, archive.ErrNotFound)
	}
	refused := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized ||
		answer.Code == "NoSuchBucket" || answer.StatusCode == http.StatusNotImplemented
	return &archive.Error{Op: op, Name: name, Err: fmt.Errorf("%s: %w", cmp.Or(answer.Code, answer.Message), err), Refused: refused}
}
