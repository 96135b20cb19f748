// Package catalog folds log 0 into the state of the cluster, and makes the changes of it
// that this node decides.
package catalog
