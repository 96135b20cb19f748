package node

import (
	"errors"

	"strandline.dev/internal/cluster"
	"strandline.dev/internal/node/membership"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/record"
)

type (
	// Options are that of package settings.
	Options = settings.Options
	// Config is that of package settings.
	Config = settings.Config
	// Durability is that of package settings.
	Durability = settings.Durability
	// Caller is that of package verbs.
	Caller = verbs.Caller
	// Info is that of package verbs.
	Info = verbs.Info
	// InfoReplica is that of package verbs.
	InfoReplica = verbs.InfoReplica
	// Bounds are that of package verbs.
	Bounds = verbs.Bounds
	// Hold is that of package verbs.
	Hold = verbs.Hold
	// HoldPlace is that of package verbs.
	HoldPlace = verbs.HoldPlace
	// Digest is that of package verbs.
	Digest = verbs.Digest
	// DigestRequest is that of package verbs.
	DigestRequest = verbs.DigestRequest
	// Session is that of package verbs.
	Session = verbs.Session
	// Topic is that of package verbs.
	Topic = verbs.Topic
	// ClusterStatus is that of package verbs.
	ClusterStatus = verbs.ClusterStatus
	// NodeStatus is that of package verbs.
	NodeStatus = verbs.NodeStatus
	// LogStatus is that of package verbs.
	LogStatus = verbs.LogStatus
	// ReplicaStatus is that of package verbs.
	ReplicaStatus = verbs.ReplicaStatus
	// ReplicaRole is that of package verbs.
	ReplicaRole = verbs.ReplicaRole
	// ReplicaState is that of package verbs.
	ReplicaState = verbs.ReplicaState
	// Member is that of package membership.
	Member = membership.Member
	// Label is that of package cluster.
	Label = cluster.Label
	// Formation is that of package membership.
	Formation = membership.Formation
)

const (
	CatalogLog = verbs.CatalogLog

	Disk   = settings.Disk
	Memory = settings.Memory

	DefaultName       = settings.DefaultName
	DefaultMemory     = settings.DefaultMemory
	DefaultMinFree    = settings.DefaultMinFree
	DefaultDiskStall  = settings.DefaultDiskStall
	DefaultLostAfter  = settings.DefaultLostAfter
	DefaultScrubRate  = settings.DefaultScrubRate
	DefaultScrubEvery = settings.DefaultScrubEvery

	Voter   = verbs.Voter
	Learner = verbs.Learner
	Leaving = verbs.Leaving
	Missing = verbs.Missing

	ReadReplica = verbs.ReadReplica

	Leads       = verbs.Leads
	Replicating = verbs.Replicating
	Probing     = verbs.Probing
	Snapshot    = verbs.Snapshot
	Unreachable = verbs.Unreachable
	Repairing   = verbs.Repairing
	Lost        = verbs.Lost
	Unknown     = verbs.Unknown
)

// CheckLabels returns why labels cannot be those of a node, or nil.
func CheckLabels(labels []Label) error {
	if refusal := cluster.CheckLabels(labels); refusal != nil {
		return errors.New(refusal.Detail)
	}
	return nil
}

// MaxOwner is the largest Caller.Owner.
const MaxOwner = record.MaxSessionOwner

// IsSystem reports whether a name belongs to the system, see verbs.IsSystem.
func IsSystem(log string) bool { return verbs.IsSystem(log) }
