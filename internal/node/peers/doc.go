// Package peers is what a node has to do with the others: who it is to them, which of them
// has a replica, how they are, questions and answers, and what all their disks have room for.
package peers
