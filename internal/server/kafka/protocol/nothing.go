package protocol

// NoOperations stands for "rights were not asked for".
const NoOperations = -1 << 31

// Text is what an optional string says; nothing is empty.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
