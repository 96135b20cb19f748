package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"strandline.dev/internal/vfs"
)

// lostMark is a file in the directory of a replica that has lost what it knew,
// and tells why. Whatever else lies there is not to be opened any more.
const lostMark = "lost"

// asideDir is where the files of such a replica are kept. They are the
// operator's to look at and to remove.
func (n *Node) asideDir(log, replica uint64) string {
	return filepath.Join(n.options.DataDir, "set-aside", fmt.Sprintf("%d-%d", log, replica))
}

// markedLost tells whether a replica was marked as lost, and why.
func (n *Node) markedLost(log, replica uint64) (reason string, yes bool) {
	text, err := n.disk.ReadFile(filepath.Join(n.replicaDir(log, replica), lostMark))
	return string(text), !errors.Is(err, fs.ErrNotExist) // one that cannot be read is there
}

// markLost marks a replica as lost, for ever.
func (n *Node) markLost(log, replica uint64, reason string) error {
	if _, marked := n.markedLost(log, replica); marked {
		return nil
	}
	path := filepath.Join(n.replicaDir(log, replica), lostMark)
	if err := vfs.WriteFileDurably(n.disk, path, []byte(reason+"\n")); err != nil {
		return fmt.Errorf("mark replica %d as lost: %w", replica, err)
	}
	return nil
}

// putAside takes the files of a lost replica out of the way, unless its log has
// left this node meanwhile.
func (n *Node) putAside(h *hosted) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if (*n.logs.Load())[h.name] != h || n.closed {
		return errors.New("the log has left this node")
	}
	return n.setAside(h.id, h.replicaID, h.problem().Detail)
}

// setAside marks a replica as lost, for ever and before anything else, and
// moves its files away. A crash leaves some of them here, with the mark; the
// next try moves the rest.
func (n *Node) setAside(log, replica uint64, reason string) error {
	from, to := n.replicaDir(log, replica), n.asideDir(log, replica)
	files, err := n.disk.List(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if err := n.markLost(log, replica, reason); err != nil {
		return err
	}
	if err := n.disk.MkdirAll(to); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	for _, file := range files {
		if file.Name == lostMark {
			continue
		}
		if err := n.disk.Rename(filepath.Join(from, file.Name), filepath.Join(to, file.Name)); err != nil {
			return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
		}
	}
	if err := errors.Join(n.disk.SyncDir(to), n.disk.SyncDir(from)); err != nil {
		return fmt.Errorf("set the files of replica %d aside: %w", replica, err)
	}
	if len(files) > 0 {
		n.logger.Warn("the files of a replica are kept aside; remove them when nobody needs them", "directory", to, "reason", reason)
	}
	return nil
}
