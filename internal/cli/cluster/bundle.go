package cluster

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline.dev/client"
	"strandline.dev/internal/cli/terminal"
)

func newClusterBundle(c *terminal.Terminal) *cobra.Command {
	var (
		output string
		ports  []string
	)
	command := &cobra.Command{
		Use:   "bundle",
		Short: "Write the information that a helper needs into a file",
		Long: `Write the information that a helper needs into a ZIP file: the version of this program,
the status of the cluster, its logs with their configuration, and, of each node named with
--http, its metrics, its readiness and, if it was started with --pprof, the stacks of its
goroutines. errors.txt names the parts that are not available; the rest is written.

The file contains no record, key, token, password or grant. It contains names of logs,
nodes and holds, and addresses: review it before you pass it on.`,
		Example: `  strandline cluster bundle
  strandline cluster bundle -o bundle.zip --http http://127.0.0.1:7271,http://127.0.0.1:7272`,
		Args:              terminal.Named(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if output == "" {
				output = "strandline-" + time.Now().UTC().Format("20060102T150405Z") + ".zip"
			}
			for _, port := range ports {
				if u, err := url.Parse(port); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
					return terminal.Misused(command, "--http must be addresses such as http://127.0.0.1:7271, not %q", port)
				}
			}
			failures, err := writeBundle(c, command.Context(), output, ports)
			if err != nil {
				return err
			}
			object := struct {
				File   string   `json:"file"`
				Errors []string `json:"errors,omitempty"`
			}{output, failures}
			return c.Show(object, func(out io.Writer) {
				fmt.Fprintf(out, "wrote %s\n", output)
				for _, f := range failures {
					fmt.Fprintf(c.Err, "strandline: not in it: %s\n", f)
				}
			})
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "the `file` (default strandline-TIME.zip)")
	command.Flags().StringSliceVar(&ports, "http", nil, "`addresses` of the nodes' HTTP ports, such as http://127.0.0.1:7271")
	_ = command.MarkFlagFilename("output", "zip")
	return command
}

// writeBundle writes the file whole, or none, and returns what it could not get.
func writeBundle(c *terminal.Terminal, ctx context.Context, path string, ports []string) (failures []string, err error) {
	// The file is created before any request is sent, and only the current user may read it.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	b := &bundle{zip: zip.NewWriter(file), prefix: strings.TrimSuffix(filepath.Base(path), ".zip") + "/"}
	b.object("version.json", func() (any, error) { return terminal.ReadVersion(), nil })
	asked := c.WithAdmin(func(admin *client.Admin) error {
		b.object("cluster.json", func() (any, error) { return admin.ClusterStatus(ctx) })
		b.object("logs.json", func() (any, error) { return admin.ListLogs(ctx, true) })
		return nil
	})
	if asked != nil {
		return nil, asked
	}
	pages, err := c.Pages()
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		at := strings.NewReplacer("://", "-", ":", "-", "/", "").Replace(port)
		for _, page := range [][2]string{{"metrics", "metrics.txt"}, {"readyz", "ready.txt"}, {"debug/pprof/goroutine?debug=1", "goroutines.txt"}} {
			b.file("nodes/"+at+"/"+page[1], func() ([]byte, error) { return pages.Get(ctx, strings.TrimSuffix(port, "/")+"/"+page[0]) })
		}
	}
	b.file("errors.txt", func() ([]byte, error) { return []byte(strings.Join(b.failures, "\n")), nil })
	return b.failures, errors.Join(b.failed, b.zip.Close())
}

// bundle is a ZIP file in the making.
type bundle struct {
	zip      *zip.Writer
	prefix   string   // a folder, so that nothing is unpacked beside other files
	failures []string // what could not be had
	failed   error    // to write
}

func (b *bundle) file(name string, content func() ([]byte, error)) {
	text, err := content()
	if err != nil {
		b.failures = append(b.failures, fmt.Sprintf("%s: %v", name, err))
		return
	}
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: b.prefix + name, Method: zip.Deflate, Modified: time.Now()})
	if err == nil {
		_, err = w.Write(text)
	}
	b.failed = errors.Join(b.failed, err)
}

func (b *bundle) object(name string, content func() (any, error)) {
	b.file(name, func() ([]byte, error) {
		object, err := content()
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(object, "", "  ")
	})
}
