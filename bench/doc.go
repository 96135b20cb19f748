// Package bench holds the measurements that the project ships: everything that
// a claim about speed rests on can be run by anyone, on their own machine, on
// Strandline and on Apache Kafka alike.
//
//	workload/    what is measured: appends over connections, long reads,
//	             pipelining over slow links, a matrix of options, everything at
//	             once. Knows no system under test, only the small interfaces it
//	             drives. What is read is compared with what was written.
//	driver/      how a system is reached: Strandline by its Go client, the Kafka
//	             protocol by franz-go, Sarama, or bare fetch requests.
//	wire/        counts the append requests in the bytes that pass a proxy.
//	limit/       what the machine itself can do: disk, sockets, plain gRPC.
//	kafka/       fetches, starts and stops a real Kafka; process/ runs servers so
//	             that none is left behind.
//	suite/       makes the logs, repeats the workloads, writes the results;
//	             all.go runs everything on systems that it starts itself.
//	report/      how results are written: a JSON object a line, CSV, a table, one
//	             page with charts, and all of it from a directory.
//	producer/    a command that runs the Java client's own benchmark against
//	             the Kafka port and a real Kafka in turn.
//	librdkafka/  and
//	sarama145/   modules of their own: strandline-bench with another library.
//
// The program is cmd/strandline-bench: a server is spared what benchmarks link.
//
// A new system under test is a new driver; a new measurement is a new workload
// and a file of the suite. Nothing here imports a room of the server: a
// benchmark sees what any client sees.
package bench
