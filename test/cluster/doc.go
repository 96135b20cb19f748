// Package cluster runs clusters of real strandline processes for tests. Every node has a separate
// loopback address. Every link between two nodes runs through a proxy that can be delayed, stalled
// one way or cut. A load checks the acknowledgements that it received.
//
//	c := cluster.Start(t, cluster.Options{Nodes: 3})
//	c.CreateLog("orders", client.LogConfig{})
//	l := c.Load(cluster.LoadOptions{Log: "orders"})
//	l.Await(1000)
//	c.Node(c.AwaitLeader("orders")).Kill()
//	l.Await(1000)
//	l.Stop()
//	l.Verify()
//
// It uses the program only through its command line and its gRPC port, and links no part of the
// server. Every process ends with the test. If the test fails, the log output of the nodes is
// shown.
//
// Start with Cluster (cluster.go), then Node (node.go), links.go for the
// network, and load.go with verify.go for what must hold.
package cluster
