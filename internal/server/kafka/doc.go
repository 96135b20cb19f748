// Package kafkaserver implements the Kafka protocol, so that existing clients and tools can use
// logs as topics. A request is a frame. server.go accepts connections, connection.go reads the
// frames of one, and api.go lists the supported requests and their handlers.
//
// Before a request is decoded, its layout (package protocol) verifies that the request has the
// bytes for every length and count in it. Batches are never decoded: they are stored and returned
// unchanged.
//
// The package has no rules about logs. Subpackages add the features that Kafka's clients expect:
// topics and brokers (topics), consumer groups (coordinator, with the decisions in group), and
// rights (acls). They use the node and the call (backend), and know nothing about connections.
package kafkaserver
