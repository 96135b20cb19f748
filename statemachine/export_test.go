package statemachine

// ErrKilled ends a replica as a kill of its process does, when a function of WithSteps returns it.
var ErrKilled = errKilled

// Steps are those of a snapshot, in their order.
var Steps = []string{string(stepSnapshot), string(stepPut), string(stepHold), string(stepTrim), string(stepDelete), string(stepDone)}

// WithSteps calls f before each step of a snapshot.
func WithSteps(f func(step string) error) Option {
	return func(o *options) { o.step = func(s step) error { return f(string(s)) } }
}
