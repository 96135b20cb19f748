package server

import (
	kafkaserver "strandline.dev/internal/server/kafka"
	"strandline.dev/internal/server/rpc"
)

// Half of the files that the process may hold open are for connections; the rest
// is for logs, of which each holds about five, and for readers. A storm of clients
// must not take a log its files.
const connectionsLeast = 16

// grpcConnections and kafkaConnections are how many connections a port takes, of a
// process that may hold so many files open; 0: not known.
func grpcConnections(files uint64, withKafka bool) int {
	return connectionShare(files, withKafka, rpc.DefaultMaxConnections)
}

func kafkaConnections(files uint64) int {
	return connectionShare(files, true, kafkaserver.DefaultMaxConnections)
}

func connectionShare(files uint64, withKafka bool, most int) int {
	if files == 0 {
		return most
	}
	share := files / 2
	if withKafka {
		share = files / 4
	}
	return int(max(connectionsLeast, min(share, uint64(most))))
}
