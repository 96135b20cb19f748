// Package kafkaserver speaks the Kafka protocol: existing clients and tools use
// logs as topics. A request is a frame; server.go takes connections,
// connection.go the frames of one, api.go lists what is served and by whom.
//
// Before a request is decoded, its layout (protocol) has proved that every
// length and count in it is covered by bytes that are there. Batches are never
// decoded: they go to the log, and come back from it, as they are.
//
// The package holds no rule about logs. What it adds to them is what Kafka's
// clients expect of their server, each in a room of its own: topics and brokers
// (topics), consumer groups (coordinator, which the room group decides for), rights
// (acls). They know the node and the call (backend), and nothing of connections.
package kafkaserver
