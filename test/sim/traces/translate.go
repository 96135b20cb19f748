//go:build with_tla

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.etcd.io/raft/v3"
)

// event is what Raft reports, or a write that is durable.
type event struct {
	raft.TracingEvent
	LogTerm uint64 `json:"last"`
	refused bool   // a request for a vote that was refused
}

// trace is what the specification is to follow.
type trace struct {
	founders []string
	events   []event
	end      string // why it ends
}

// preCandidate is a role that the specification does not have: it is that of before.
const preCandidate = "StatePreCandidate"

// translate says what happened in the specification's words:
//
//   - a replica that starts is one event, a restart, and none when it does so for the first time;
//   - a request for a vote that Raft ignores, since it hears from a leader, has not arrived;
//   - the answer to a leader of an earlier term rejects.
func translate(events []event, lines int) (*trace, error) {
	t := &trace{}
	begun, roles := map[string]bool{}, map[string]string{}
	for k := 0; k < len(events); k++ {
		e := events[k]
		if e.Role == preCandidate {
			e.Role = roles[e.NodeID]
		} else if e.Role != "" {
			roles[e.NodeID] = e.Role
		}
		if len(t.events) == lines {
			t.end = "long enough"
			return t, nil
		}
		switch {
		case e.Name == "InitState":
			for k++; events[k].Name != "BecomeFollower"; k++ {
				if events[k].NodeID != e.NodeID {
					return nil, fmt.Errorf("event %d: %s of %s while %s starts", k, events[k].Name, events[k].NodeID, e.NodeID)
				}
			}
			e = events[k]
			e.Name, roles[e.NodeID] = "Restart", e.Role
			if begun[e.NodeID] {
				break
			}
			begun[e.NodeID] = true
			if s := e.State; s.Term != 1 || s.Vote != "0" || s.Commit != 1 || e.LogSize != 1 {
				return nil, fmt.Errorf("event %d: replica %s begins as %+v", k, e.NodeID, e)
			}
			t.founders = e.Conf[0]
			continue
		case e.Name == "ApplyConfChange", e.Name == "ChangeConf", len(e.Conf[1]) > 0:
			t.end = "a change of the configuration"
			return t, nil
		case e.Message != nil && e.Message.Type == "MsgSnap":
			t.end = "a snapshot"
			return t, nil
		case e.Name == "ReceiveRequestVoteRequest":
			next := event{}
			if k+1 < len(events) {
				next = events[k+1]
			}
			became := next.Name == "BecomeFollower" && next.NodeID == e.NodeID && next.State.Term == e.Message.Term
			if e.Message.Term > e.State.Term && !became {
				continue
			}
			if became && k+2 < len(events) {
				next = events[k+2]
			}
			e.refused = next.Name == "SendRequestVoteResponse" && next.NodeID == e.NodeID && next.Message.Reject
		case e.Name == "ReceiveAppendEntriesResponse" && e.Message.Type == "MsgAppResp" && e.Message.Index == 0:
			e.Message.Reject = true
		}
		t.events = append(t.events, e)
	}
	t.end = "the run"
	return t, nil
}

func (t *trace) write(w io.Writer) {
	fmt.Fprintf(w, "---- MODULE RaftTrace ----\nFounders == %s\nEvents == <<\n", set(t.founders))
	for i := range t.events {
		e := &t.events[i]
		fmt.Fprintf(w, `[e |-> %q, i |-> %q, term |-> %d, vote |-> %q, commit |-> %d, log |-> %d, last |-> %d, role |-> %q, refused |-> %s`,
			e.Name, e.NodeID, e.State.Term, e.State.Vote, e.State.Commit, e.LogSize, e.LogTerm, e.Role, boolean(e.refused))
		if m := e.Message; m != nil {
			fmt.Fprintf(w, `, m |-> [type |-> %q, term |-> %d, from |-> %q, to |-> %q, entries |-> %d, logTerm |-> %d, index |-> %d, commit |-> %d, reject |-> %s]`,
				m.Type, m.Term, m.From, m.To, m.EntryLength, m.LogTerm, m.Index, m.Commit, boolean(m.Reject))
		}
		comma := ","
		if i == len(t.events)-1 {
			comma = ""
		}
		fmt.Fprintf(w, "]%s\n", comma)
	}
	fmt.Fprintf(w, ">>\n====\n%d events, up to %s\n", len(t.events), t.end)
}

func set(ids []string) string {
	quoted := slices.Clone(ids)
	for i, id := range quoted {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return "{" + strings.Join(quoted, ", ") + "}"
}

func boolean(b bool) string { return strings.ToUpper(fmt.Sprint(b)) }
