package cost

import "time"

// WatchLateness measures how much longer short sleeps take than they should, until latest is called, which returns
// the most. A test that bounds a time compares with it: where sleeps were late, the machine stood still.
func WatchLateness() (latest func() time.Duration) {
	const short = 20 * time.Millisecond
	stop, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for began := time.Now(); ; began = time.Now() {
			select {
			case <-stop:
				most <- max(late, time.Since(began)-short)
				return
			case <-time.After(short):
				late = max(late, time.Since(began)-short)
			}
		}
	}()
	return func() time.Duration { close(stop); return <-most }
}
