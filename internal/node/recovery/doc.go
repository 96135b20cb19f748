// Package recovery lets the survivors of a cluster continue after a majority was permanently lost.
// It works on the data directories of stopped nodes. Take reports the data of a node;
// cluster.PlanRecovery decides; Begin stores the plan, and Finish carries out this node's part. A
// crash before the end of Begin changes nothing. After a later crash, the same command or the next
// start of the node calls Finish again.
package recovery
