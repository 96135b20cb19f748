package cli

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"strandline.dev/client"
	"strandline.dev/internal/archive"
	"strandline.dev/internal/record"
	"strandline.dev/internal/segment"
)

// archivedTo starts a node with an archive of a log of 100 records, and returns the archive's URL and
// its objects.
func archivedTo(t *testing.T) (p *process, url string, objects []string) {
	dir := filepath.Join(t.TempDir(), "archive")
	url = "file://" + dir
	p = startNode(t, t.TempDir(), "--archive", url, "--archive-after", "1ms")
	p.appendBatches("orders", 100, 10, -1)
	require.Eventually(t, func() bool {
		o := p.run(nil, "archive", "list", "--from", url, "--json")
		var l struct {
			End int64 `json:"end_offset"`
		}
		return o.code == 0 && json.Unmarshal([]byte(o.out), &l) == nil && l.End == 100
	}, time.Minute, 50*time.Millisecond)
	objects, err := filepath.Glob(filepath.Join(dir, "clusters", "*", "logs", "*", "*.obj"))
	require.NoError(t, err)
	return p, url, objects
}

func TestAnArchiveIsVerifiedAgainstTheDigestOfTheLogWithoutACluster(t *testing.T) {
	p, url, objects := archivedTo(t)
	var digest struct {
		Digest string `json:"digest"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "digest", "orders", "--json")), &digest))
	require.Equal(t, 0, p.terminate())

	var verdict verifiedArchive
	require.NoError(t, json.Unmarshal([]byte(p.must("", "archive", "verify", "--from", url, "--json")), &verdict))
	require.True(t, verdict.Intact)
	require.Equal(t, digest.Digest, verdict.Digest)
	require.Equal(t, "orders", verdict.Log)
	require.Contains(t, p.must("", "archive", "verify", "orders", "--from", url), "orders: intact, offsets [0, 100)")
	require.Contains(t, p.must("", "archive", "list", "--from", url), "orders")
	require.Contains(t, p.must("", "archive", "describe", "orders", "--from", url), digest.Digest)

	// A bit is flipped.
	flipByte(t, objects[0], 500)
	o := p.run(nil, "archive", "verify", "orders", "--from", url)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.out, filepath.Base(objects[0])+", offsets [0, ")
	o = p.run(nil, "archive", "verify", "--from", url, "--json")
	require.Equal(t, 1, o.code)
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(o.out, "\n", 2)[0]), &verdict))
	require.False(t, verdict.Intact)
	require.Equal(t, filepath.Base(objects[0]), verdict.Problems[0].Object)

	// A manifest is not one.
	manifest := filepath.Join(filepath.Dir(objects[0]), "manifest.json")
	require.NoError(t, os.WriteFile(manifest, []byte("{}"), 0o600))
	o = p.run(nil, "archive", "list", "--from", url)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.err, "damaged manifest")
}

type verifiedArchive struct {
	Log      string `json:"log"`
	Intact   bool   `json:"intact"`
	Digest   string `json:"digest"`
	End      int64  `json:"end_offset"`
	Problems []struct {
		Object string `json:"object"`
	} `json:"problems"`
}

func TestAnArchiveThatIsNotThereIsAnErrorAndNotMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	p := startNode(t, t.TempDir())
	o := p.run(nil, "archive", "list", "--from", "file://"+dir)
	require.Equal(t, 1, o.code)
	require.Contains(t, o.err, "has no archives of logs")
	require.NoDirExists(t, dir)
	for _, url := range []string{"/backup", "http://host/x", "file:relative", "s3://user:secret@bucket/x", "s3://user:secret@bucket/%zz"} {
		o := p.run(nil, "archive", "verify", "--from", url)
		require.Equal(t, 2, o.code, url)
		require.NotContains(t, o.err, "secret")
		o = p.run(nil, "serve", "--archive", url)
		require.Equal(t, 2, o.code, url)
		require.NotContains(t, o.err, "secret")
	}
}

type restored struct {
	As       string `json:"as"`
	Start    int64  `json:"start_offset"`
	End      int64  `json:"end_offset"`
	Archived string `json:"archived_digest"`
	Digest   string `json:"digest"`
	Equal    bool   `json:"equal"`
}

func TestALogIsRestoredIntoAnotherClusterWithItsDigest(t *testing.T) {
	p, url, objects := archivedTo(t)
	var digest struct {
		Digest string `json:"digest"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.must("", "log", "digest", "orders", "--json")), &digest))
	records := p.must("", "read", "orders", "-o", "raw")
	p.must("", "log", "create", "late")
	p.must("", "log", "trim", "late", "--before", "50", "--fast-forward")
	p.must("first", "append", "late")
	require.Eventually(t, func() bool {
		return p.run(nil, "archive", "verify", "late", "--from", url).code == 0
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, 0, p.terminate())

	other := startNode(t, t.TempDir())
	var r restored
	require.NoError(t, json.Unmarshal([]byte(other.must("", "restore", "--from", url, "--log", "orders", "--json")), &r))
	require.Equal(t, restored{"orders", 0, 100, digest.Digest, digest.Digest, true}, r)
	require.Equal(t, records, other.must("", "read", "orders", "-o", "raw"))
	out := other.must("", "restore", "--from", url, "--log", "orders")
	require.Contains(t, out, "restored log      "+digest.Digest, "it was whole already")
	require.Equal(t, records, other.must("", "read", "orders", "-o", "raw"))

	// An interrupted restore continues.
	other.must("", "log", "create", "part")
	data, err := os.ReadFile(objects[0])
	require.NoError(t, err)
	var first record.Batch // of 10 records
	_, err = archive.ReadObject(data, func(e *segment.Entry) error {
		entry, err := record.ParseEntry(e.Payload)
		if first == nil && err == nil {
			first, _, err = record.Split(entry.Body)
		}
		return err
	})
	require.NoError(t, err)
	c, err := client.Dial([]string{other.grpc})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Admin().AppendStored(t.Context(), "part", first, 7)
	require.ErrorIs(t, err, client.ErrEndMismatch)
	end, err := c.Admin().AppendStored(t.Context(), "part", first, 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, end)
	require.NoError(t, json.Unmarshal([]byte(other.must("", "restore", "--from", url, "--log", "orders", "--as", "part", "--json")), &r))
	require.Equal(t, restored{"part", 0, 100, digest.Digest, digest.Digest, true}, r)

	// A log with other records is left as it is.
	other.appendBatches("else", 20, 10, 3)
	o := other.run(nil, "restore", "--from", url, "--log", "orders", "--as", "else")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.err, "not with the records of the archive: nothing was appended")
	require.Contains(t, other.must("", "log", "info", "else", "--json"), `"end_offset":20`)

	// So is a log in use that is empty: its offsets do not change.
	other.must("", "log", "trim", "else", "--before", "20")
	o = other.run(nil, "restore", "--from", url, "--log", "late", "--as", "else")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.err, "nothing was appended")
	require.Contains(t, other.must("", "log", "info", "else", "--json"), `"end_offset":20`)

	other.must("", "log", "create", "begun") // as a restore leaves it that ends before its first append
	other.must("", "log", "trim", "begun", "--before", "50", "--fast-forward")
	other.must("", "restore", "--from", url, "--log", "late", "--as", "begun")

	// What is damaged in the archive is not restored.
	flipByte(t, objects[len(objects)-1], 500)
	o = other.run(nil, "restore", "--from", url, "--log", "orders", "--as", "damaged")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.err, "damaged")
}

// Credentials of S3 come from the environment, and stay out of what a node stores and logs.
func TestANodeArchivesToS3WithoutShowingItsCredentials(t *testing.T) {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("logs"))
	s3 := httptest.NewServer(gofakes3.New(backend).Server())
	defer s3.Close()
	const secret = "do-not-show-this-key"
	environ := []string{"AWS_ENDPOINT_URL=" + s3.URL, "AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=" + secret}
	data := t.TempDir()
	p := startNodeWith(t, data, environ, "--archive", "s3://logs/prefix", "--archive-after", "1ms")
	p.appendBatches("orders", 100, 10, -1)
	var verdict verifiedArchive
	require.Eventually(t, func() bool {
		verify := program(t, "archive", "verify", "orders", "--from", "s3://logs/prefix", "--json")
		verify.Env = append(verify.Env, environ...)
		out, err := verify.Output()
		return err == nil && json.Unmarshal(out, &verdict) == nil && verdict.End == 100
	}, time.Minute, 50*time.Millisecond)
	require.True(t, verdict.Intact)

	// The bucket is gone: that is in the log, and no key.
	s3.Close()
	p.must("another", "append", "orders")
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + p.http + "/metrics")
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && !strings.Contains(string(text), "strandline_archive_failures_total 0\n")
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, 0, p.terminate())
	require.Contains(t, p.stderr.String(), "a log is not archived")
	require.NotContains(t, p.stderr.String(), secret)
	require.NoError(t, filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.NotContains(t, string(content), secret, path)
		return err
	}))
}
