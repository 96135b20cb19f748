// Package recovery lets what is left of a cluster continue when a majority is lost for good, on the
// data directories of nodes that are stopped. Take says what a node has; cluster.PlanRecovery
// decides; Begin writes the plan down, and Finish carries out this node's part. A crash before
// the end of Begin leaves everything as it was; after it, Finish is called again by the same command or
// by the next start of the node.
package recovery
