package peer

// RemoteError is an error that the other side's Answer returned.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }
