package sim

import (
	"encoding/json"
	"slices"
	"strconv"

	"strandline.dev/internal/segment"
)

// durable reports which writes of a replica's log are durable, between the events of its Raft.
type durable struct {
	segment.Log
	id     uint64
	report func(event []byte)
}

// Durable is a write that is durable: what the log is with it.
type Durable struct {
	Name    string `json:"name"` // "Durable"
	NodeID  string `json:"nid"`
	LogSize uint64 `json:"log"`  // index of the last entry
	LogTerm uint64 `json:"last"` // its term
	State   struct {
		Term   uint64 `json:"term"`
		Vote   string `json:"vote"`
		Commit uint64 `json:"commit"`
	} `json:"state"`
}

func (d *durable) Write(ws []segment.Write) (segment.Result, error) {
	result, err := d.Log.Write(ws)
	if err != nil || !slices.ContainsFunc(ws, func(w segment.Write) bool { return w.MustSync }) {
		return result, err
	}
	e := Durable{Name: "Durable", NodeID: strconv.FormatUint(d.id, 10), LogSize: d.LastIndex()}
	if e.LogTerm, err = d.Term(e.LogSize); err != nil {
		return result, err
	}
	hard := d.HardState()
	e.State.Term, e.State.Vote, e.State.Commit = hard.Term, strconv.FormatUint(hard.Vote, 10), hard.Commit
	event, err := json.Marshal(e)
	if err != nil {
		return result, err
	}
	d.report(event)
	return result, nil
}

// untraced are the weights of kinds of faults in a world whose Raft is traced: without those
// that move replicas, or take damage for what cannot be read.
func untraced(weights []int) []int {
	left := slices.Clone(weights)
	for i, k := range kinds {
		switch k.name {
		case "failed read", "change of members", "move of an idle log":
			left[i] = 0
		}
	}
	return left
}
