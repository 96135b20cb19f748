// Package hosted is one log as a node hosts it: its replica and settings, calls that wait
// for it, repairs of its segments while it runs; and the list of all of them.
package hosted
