// Package cluster runs clusters of real strandline processes for tests: every
// node on a loopback address of its own, every link between two nodes through
// a proxy that can be delayed, stalled one way or cut, and a load that knows
// what was promised to it.
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
// It knows the program by its command line and its gRPC port only, and links
// none of the server. Every process dies with the test; what the nodes wrote to
// their logs is shown when the test fails.
//
// Start with Cluster (cluster.go), then Node (node.go), links.go for the
// network, and load.go with verify.go for what must hold.
package cluster
