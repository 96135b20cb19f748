package record

import (
	"slices"
	"strings"
)

// systemPrefix begins names that are reserved for future logs of the system.
const systemPrefix = "_strandline"

// systemLogs are the logs of the system, and the names that Kafka's clients use for theirs.
var systemLogs = []string{"_catalog", "_offsets", "__consumer_offsets", "__transaction_state"}

// IsSystemLog reports whether a name is reserved for the system.
func IsSystemLog(name string) bool {
	return strings.HasPrefix(name, "_") && (slices.Contains(systemLogs, name) || strings.HasPrefix(name, systemPrefix))
}
