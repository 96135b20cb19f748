// Package membership makes a node a member of a cluster (Former, Joiner; Roll has the members, and
// ClusterAdmin changes them for operators), and applies changes of the cluster: Controller on the
// leader of the catalog, Reshaper and Spread on leaders of logs, Handovers, Stretching. Follower
// applies the changes of other nodes. Clock drives the ticks.
package membership
