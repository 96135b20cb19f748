package statemachine

import (
	"context"
	"errors"
	"fmt"

	"strandline.dev/client"
)

// Effect is something that has to be done once outside of the state, such as sending a mail.
type Effect struct {
	// ID identifies the effect among all of the state: the offset of the record that made it due, for example.
	ID string
	// Payload is what is needed to perform it.
	Payload []byte
	// Done is the record for which Apply removes it from those that are due.
	Done client.Record
}

// RunEffects performs the effects that the state says are due, one after the other, until ctx or the
// replica ends, and returns why. Apply itself must have none: every replica calls it, and again after each
// boot. It puts them into the state instead, and takes them out for their Done record.
//
// due returns the effect that is due next, and whether there is one; it is called like the function of a query.
// perform does it. After a crash between perform and the Done record it is called again with the same ID,
// perhaps on another replica: whoever receives the effect recognizes the repetition by the ID. An error of
// perform is given to Hooks.Trouble, and the effect is tried again after a second. If only the Done record fails,
// the record alone is proposed again. RunEffects returns an error of the log that will not pass, such as
// client.ErrPermissionDenied, client.ErrSealed or client.ErrFenced; client.ErrFull may pass. Run it on one replica
// at a time: where two run it, an effect may be performed by both.
func (r *Replica[R]) RunEffects(ctx context.Context, due func() (Effect, bool), perform func(context.Context, Effect) error) error {
	var performed *Effect // its Done record may not be in the log
	for {
		var next int64
		var effect Effect
		var found bool
		var failed error // of the log
		// An effect that another replica has performed is not due in a linearizable query.
		err := r.Query(ctx, Linearizable, func() {
			next = r.Offset()
			effect, found = due()
		})
		failed = err
		if err == nil && !found {
			err = r.reach(ctx, next+1)
		} else if err == nil {
			if performed == nil || performed.ID != effect.ID {
				err = perform(ctx, effect)
			}
			if err == nil {
				performed = &effect
				_, err = r.Propose(ctx, effect.Done)
				failed = err
			}
		}
		var refused *client.Error
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, ErrStopped):
			return err
		case errors.As(failed, &refused) && !refused.Retryable && refused.Outcome != client.MaybeDone && !refused.Is(client.ErrFull):
			return fmt.Errorf("effect %q: %w", effect.ID, err)
		default:
			r.trouble(fmt.Errorf("effect %q: %w", effect.ID, err))
			_ = pause(ctx, pauseAgain)
		}
	}
}
