// Package bench holds the measurements that the project ships: everything that
// a claim about speed rests on can be run by anyone, on their own machine.
//
//	workload/  what is measured: appends over connections, long reads. Knows
//	           no system under test, only the small interfaces it drives.
//	driver/    how a system is reached: Strandline by its Go client.
//	limit/     what the machine itself can do: disk, sockets, plain gRPC.
//	report/    how results are written: a JSON object a line, CSV, a table.
//
// A new system under test is a new driver; a new measurement is a new
// workload; neither touches the other. Nothing here imports a room of the
// server: a benchmark sees what any client sees.
package bench
