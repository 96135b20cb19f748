// Package replicas opens, starts, repairs, replaces and removes the replicas that the catalog
// assigns to a node. Opener, Starter and Cleaner apply the catalog. Repairer decides what to do
// about damage; replicaRepair and segmentRepairer repair, fetcher asks other nodes for entries,
// EntryGiver answers, and CatalogRepairer repairs the catalog. Scrubber looks for damage. Renewer
// replaces lost replicas, and Rejoin all replicas of a node. Retention trims.
package replicas
