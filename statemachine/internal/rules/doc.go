// Package rules decides for one replica of a state machine: which results are kept for whom, where
// a replica boots, when a snapshot is due and what it makes superfluous, and whether the states of
// replicas have diverged. It only decides; package statemachine acts.
package rules
