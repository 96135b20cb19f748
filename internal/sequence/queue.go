package sequence

// queue is a double-ended queue in a ring buffer. It keeps its memory, so a queue that is filled
// and emptied at the same rate does not allocate.
type queue[T any] struct {
	ring  []T // length is 0 or a power of two
	head  int
	count int
}

func (q *queue[T]) len() int { return q.count }

// at returns the i-th item from the front.
func (q *queue[T]) at(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue[T]) pushBack(item T) {
	if q.count == len(q.ring) {
		grown := make([]T, max(4, 2*len(q.ring)))
		for i := range q.count {
			grown[i] = *q.at(i)
		}
		q.ring, q.head = grown, 0
	}
	q.count++
	*q.at(q.count - 1) = item
}

func (q *queue[T]) popFront() T {
	var zero T
	place := q.at(0)
	item := *place
	*place = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return item
}

func (q *queue[T]) popBack() T {
	var zero T
	place := q.at(q.count - 1)
	item := *place
	*place = zero
	q.count--
	return item
}
