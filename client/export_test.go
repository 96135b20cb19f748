package client

import "time"

// No test waits for it to pass, and a busy machine may take longer than a second.
func init() { connectPatience = 30 * time.Second }
