// Package membership makes a node a member of a cluster (Former, Joiner; Roll has the members,
// and ClusterAdmin changes them for operators), and keeps the cluster as it should be:
// Controller on the leader of the catalog, Reshaper and Spread on leaders of logs, Handovers,
// Stretching, Follower for what others have changed; Clock has the time.
package membership
