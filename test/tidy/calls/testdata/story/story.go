package main

import "story/disk"

type syncer interface{ Sync() }

type memory struct{}

func (memory) Sync() {}

// other has a method of the same name and is no syncer.
type other struct{}

func (other) Sync(force bool) {}

type queue[T any] struct{ next func(T) }

func (q *queue[T]) push(v T) { q.next(v) }

type sink[T any] interface{ push(T) }

func flush(s syncer) { s.Sync() }

func through[T any](s sink[T], v T) { s.push(v) }

func handOn() { go func() { later(flush) }() }

func later(f func(syncer)) { f(&disk.File{}) }

func main() {
	handOn()
	through(&queue[int]{}, 1)
	(&disk.File{}).Close()
}
