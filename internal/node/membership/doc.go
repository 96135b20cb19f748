// Package membership makes a node a member of a cluster (former, joiner, members), and keeps
// the cluster as it should be: controller on the leader of the catalog, reshaper and
// leaderSpread on leaders of logs, handovers, follower for what others have changed; clock has
// the time.
package membership
