// Package reading reads a log for a client: a Request says what, a Reader gives it in
// Chunks of about 1 MiB as long as the log's knowledge is as fresh as asked for. Reads of
// old records pause where cores are short and the log takes appends (Pace, Intake), and
// metered ones hold no more than their part of the node's memory. The log itself is
// known as a Log; where a read begins is the node's to find.
package reading
