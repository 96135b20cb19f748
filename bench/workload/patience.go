package workload

import (
	"context"
	"io"
	"time"
)

// patience is how long a run that is interrupted waits for a server that may
// have stopped answering. What it has by then is reported.
const patience = 2 * time.Second

// Patient is the context of what is finished once it is begun, also after an
// interruption: an append, whose outcome is known only then, or the removal of
// a log. It ends when patience has passed since ctx ended. Until then the
// client library decides how long it waits.
func Patient(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(patience, end)
		context.AfterFunc(patient, func() { late.Stop() })
	})
	return patient, func() {
		unhook()
		end()
	}
}

// shut closes a connection for as long as the patient context lasts. A library
// that waits longer for its server is left behind.
func shut(patient context.Context, connection io.Closer) error {
	closed := make(chan error, 1)
	go func() { closed <- connection.Close() }()
	select {
	case err := <-closed:
		return err
	case <-patient.Done():
		return patient.Err()
	}
}

// shutReader closes a reader and discards its errors.
func shutReader(ctx context.Context, reader Reader) {
	patient, end := Patient(ctx)
	defer end()
	_ = shut(patient, reader)
}

// sleepUntil returns at a time, or false as soon as over is closed.
func sleepUntil(at time.Time, over <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}
