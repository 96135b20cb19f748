// Package logspecserver serves the logspec.Log service on one log of the node.
// An index of that service is an offset plus one.
//
// Its messages have few ways to refuse: redirect where another node leads, full
// where there is no room, truncated where a read is below the start. Every
// other refusal is the status of the call, after which a client connects anew.
package logspecserver
