package client

import "time"

// No test waits for it to pass, and a busy machine may take longer than a second.
func init() { connectPatience, answerPatience = 30*time.Second, 30*time.Second }

// WithWaits sets how long a node may be silent before others are asked, and take to answer then.
func WithWaits(silent, answer time.Duration) Option {
	return func(o *clientOptions) { o.waits = waits{silent, silent, suspectLooks * silent, silent, answer} }
}

// Waits reports whether callers of End wait for a call that has not begun.
func Waits(c *Client, log string) bool {
	c.ends.mu.Lock()
	defer c.ends.mu.Unlock()
	return c.ends.asked[log] != nil
}
