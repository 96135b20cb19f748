//go:build race

package cost

// factor: under the race detector sync.Pool forgets at random what was given to it, so that
// buffers which are used again are made anew now and then.
const factor = 10
