package core

import (
	"fmt"
	"log/slog"
)

// raftLogger gives Raft's own words to slog. They number replicas in hexadecimal
// and are of interest to those who debug elections only; what an operator has to
// know of leaders is logged by the node, with names. See Options.LeaderChanged.
type raftLogger struct{ to *slog.Logger }

func (l raftLogger) Debug(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Info(v ...any)                  { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)  { l.to.Debug(fmt.Sprintf(format, v...)) }

func (l raftLogger) Warning(v ...any)                 { l.to.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.to.Debug(fmt.Sprintf(format, v...)) }
func (l raftLogger) Error(v ...any)                   { l.to.Error(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.to.Error(fmt.Sprintf(format, v...)) }

// contradiction is what Raft says when an invariant is broken: going on could
// harm the log. See Core.protect.
type contradiction string

func (l raftLogger) Fatal(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }
func (l raftLogger) Panic(v ...any)                 { panic(contradiction(fmt.Sprint(v...))) }
func (l raftLogger) Panicf(format string, v ...any) { panic(contradiction(fmt.Sprintf(format, v...))) }
