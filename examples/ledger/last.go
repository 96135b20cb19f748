package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"strandline.dev/client"
)

// lastFile keeps the last command that was sent, and where. It survives the death of the
// program; to survive a power cut, save would have to sync the file and its directory.
type lastFile string

// sent is a transfer and the position of its record in its session.
type sent struct {
	Transfer transfer
	At       client.SessionPosition
}

func (f lastFile) save(s sent) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(string(f)+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(string(f)+".new", string(f))
}

// load returns what was saved last, and whether anything was.
func (f lastFile) load() (s sent, found bool, err error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err == nil, err
}
