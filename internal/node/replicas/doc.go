// Package replicas opens, starts, repairs, replaces and removes the replicas that the catalog
// puts on a node. opener, starter and cleaner bring what is hosted to what the catalog
// says; repairer judges damage, replicaRepair and segmentRepairer repair, fetcher asks others,
// entryGiver answers, catalogRepairer does so for the catalog; scrubber looks for damage; renewer
// replaces what is lost, and rejoin a whole node's; retention trims.
package replicas
