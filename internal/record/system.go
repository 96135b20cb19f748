package record

import (
	"slices"
	"strings"
)

// systemPrefix begins names that are kept for logs of the system to come.
const systemPrefix = "_strandline"

// systemLogs are the logs that the system has, and what Kafka's clients take for its own.
var systemLogs = []string{"_catalog", "_offsets", "__consumer_offsets", "__transaction_state"}

// IsSystemLog reports whether a name belongs to the system: to a log that there is, or
// that there may be one day.
func IsSystemLog(name string) bool {
	return strings.HasPrefix(name, "_") && (slices.Contains(systemLogs, name) || strings.HasPrefix(name, systemPrefix))
}
