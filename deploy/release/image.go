package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user that a node runs as, who owns its data.
const nobody = 65532

// image writes strandline-VERSION-oci.tar: an image for each target in the layout of the Open Container Initiative, which tools of
// registries and runtimes read without a daemon. It holds the program alone.
func (r *release) image(targets []target) error {
	if len(targets) == 0 {
		return nil
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		image, err := r.imageFor(t)
		if err != nil {
			return fmt.Errorf("image for %v: %w", t, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.system, Architecture: t.architecture}},
		})
	}
	into := filepath.Join(r.work, "oci")
	path, err := layout.Write(into, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.out, "strandline-"+r.version+"-oci.tar"))
	if err != nil {
		return err
	}
	return errors.Join(r.pile(file, ".", []entry{{".", into, 0o644}}), file.Close())
}

func (r *release) imageFor(t target) (v1.Image, error) {
	files, err := r.imageFiles(t)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "deploy/release"}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.imageConfig(image, t))
}

// imageFiles is the one layer: the program, its licences, and the folder of the data. All else can be read-only.
func (r *release) imageFiles(t target) ([]byte, error) {
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	for _, e := range []entry{
		{"strandline", r.program(t, programs[0]), 0o755},
		{"LICENSES", filepath.Join(r.work, "LICENSES"), 0o644},
	} {
		if err := add(archive, e.name, e.from, e.mode, r.date); err != nil {
			return nil, err
		}
	}
	data := tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: nobody, Gid: nobody, ModTime: r.date, Format: tar.FormatPAX}
	if err := archive.WriteHeader(&data); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return layer.Bytes(), nil
}

// imageConfig says what deploy/container/Dockerfile says.
func (r *release) imageConfig(image v1.Image, t target) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		panic(err) // it was made here, in memory
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.system, t.architecture, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", nobody, nobody),
		Entrypoint: []string{"/strandline"},
		Cmd:        []string{"serve"},
		Env: []string{
			"STRANDLINE_SERVE_DATA=/data",
			"STRANDLINE_SERVE_GRPC=0.0.0.0:7171",
			"STRANDLINE_SERVE_KAFKA=0.0.0.0:9092",
			"STRANDLINE_SERVE_HTTP=0.0.0.0:7271",
		},
		ExposedPorts: map[string]struct{}{"7171/tcp": {}, "9092/tcp": {}, "7271/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/strandline", "ready"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Strandline",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.date.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}
