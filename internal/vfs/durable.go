package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// WriteFileDurably replaces the file name by data: after a crash it holds
// either what it held before or all of data. It is durable on return.
func WriteFileDurably(disk FS, name string, data []byte) error {
	temporary := name + TemporarySuffix
	if err := WriteSynced(disk, temporary, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := disk.Rename(temporary, name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := disk.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

const TemporarySuffix = ".tmp"

// WriteSynced makes a file with durable content; its name is not durable yet.
func WriteSynced(disk FS, name string, data []byte) error {
	if err := disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := disk.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(data, 0); err == nil {
		err = file.Datasync()
	}
	return errors.Join(err, file.Close())
}

// ReadWhole reads a small file and closes it.
func ReadWhole(file File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	b := make([]byte, size)
	n, err := file.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], errors.Join(err, file.Close())
}

// Stored reads whole files as the disk has them, see FS.OpenStored.
type Stored struct{ FS }

// ReadFile implements FS.
func (s Stored) ReadFile(name string) ([]byte, error) {
	file, err := s.OpenStored(name)
	if err != nil {
		return nil, err
	}
	return ReadWhole(file)
}
