package sequence

// endedList holds the sessions that have ended, oldest end first. It is linked
// through the sessions, because one of Kafka's may come back and leave it from
// the middle.
type endedList struct {
	oldest, newest *session
	count          int
}

func (l *endedList) push(s *session) {
	s.older, s.newer = l.newest, nil
	if l.newest == nil {
		l.oldest = s
	} else {
		l.newest.newer = s
	}
	l.newest = s
	l.count++
}

func (l *endedList) remove(s *session) {
	if s.older == nil {
		l.oldest = s.newer
	} else {
		s.older.newer = s.newer
	}
	if s.newer == nil {
		l.newest = s.older
	} else {
		s.newer.older = s.older
	}
	s.older, s.newer = nil, nil
	l.count--
}
