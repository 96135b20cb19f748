package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	strandlinev1 "strandline.dev/api/strandline/v1"
)

// WithToken sends a token of Admin.CreateAccessToken with every call and stream. Dial refuses a
// token with a space or a line break, which a header cannot contain. Without WithCertificates or
// WithTLS it can be read in transit. Default none.
func WithToken(token string) Option {
	return func(o *clientOptions) {
		o.wrongToken = validToken(token)
		o.token = nil
		if token != "" {
			o.token = &bearer{func(bool) (string, error) { return token, nil }}
		}
	}
}

// WithTokenFunc calls give for the token of each call and stream, in place of WithToken, from any
// goroutine; it must return soon. If it fails with an error that is not an *Error, nothing is
// sent, and the call is retried as if no node could be reached. When a node refuses a token,
// which may have expired while a stream was open, give is called again: if it returns another
// token, the call is repeated once, and a Producer or Reader continues. If give is nil, no token
// is sent.
func WithTokenFunc(give func() (string, error)) Option {
	return func(o *clientOptions) {
		o.wrongToken, o.token = nil, nil
		if give != nil {
			o.token = &bearer{func(bool) (string, error) { return give() }}
		}
	}
}

// WithTokenFile is like WithTokenFunc with a token stored in a file; surrounding white space is
// ignored. The file is read again while calls are made, at most once per second, and when a node
// refuses the token, so that it can be replaced. If it can no longer be read, or is empty because
// it is being written, the last token is sent. The error is ErrInvalid if none has been read.
func WithTokenFile(path string) Option {
	return func(o *clientOptions) {
		file := &tokenFile{path: path}
		o.wrongToken, o.token = nil, &bearer{file.give}
	}
}

// tokenAgain is how long after reading a token file it is read again for a call.
const tokenAgain = time.Second

// tokenFile is a token stored in a file.
type tokenFile struct {
	path  string
	mu    sync.Mutex
	shown string // as read last
	read  time.Time
}

func (f *tokenFile) give(anew bool) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !anew && f.shown != "" && time.Since(f.read) < tokenAgain {
		return f.shown, nil
	}
	text, err := os.ReadFile(f.path)
	switch {
	case err == nil:
		if found := strings.TrimSpace(string(text)); found != "" || f.shown == "" {
			f.shown = found
		}
	case f.shown == "":
		return "", &Error{Reason: ErrInvalid.Reason, Message: "the token cannot be read: " + err.Error()}
	}
	f.read = time.Now()
	return f.shown, nil
}

// DialEnvironment is like Dial with settings from environment variables, which the command line
// uses, too: STRANDLINE_SERVER (addresses with commas between them; 127.0.0.1:7171),
// STRANDLINE_TLS_CA, STRANDLINE_TLS_CERT, STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else
// STRANDLINE_TOKEN, and STRANDLINE_INSECURE. opts take precedence. getenv is os.Getenv or a
// function with the same purpose. The error is ErrInvalid if a variable is not valid, or names a
// file that cannot be read.
func DialEnvironment(getenv func(string) string, opts ...Option) (*Client, error) {
	value := func(name string) string { return getenv("STRANDLINE_" + name) }
	var found []Option
	switch insecure := strings.ToLower(value("INSECURE")); insecure {
	case "1", "t", "true", "yes":
		found = append(found, WithInsecure())
	case "", "0", "f", "false", "no":
	default:
		return nil, &Error{Reason: ErrInvalid.Reason, Message: fmt.Sprintf("STRANDLINE_INSECURE is %q, and has to be true or false", insecure)}
	}
	if ca, cert, key := value("TLS_CA"), value("TLS_CERT"), value("TLS_KEY"); ca != "" || cert != "" || key != "" {
		found = append(found, WithCertificates(ca, cert, key))
	}
	if file := value("TOKEN_FILE"); file != "" {
		found = append(found, WithTokenFile(file))
	} else if token := value("TOKEN"); token != "" {
		found = append(found, WithToken(strings.TrimSpace(token)))
	}
	servers := value("SERVER")
	if servers == "" {
		servers = "127.0.0.1:7171"
	}
	addresses := strings.Split(servers, ",")
	for i, address := range addresses {
		addresses[i] = strings.TrimSpace(address)
	}
	return Dial(addresses, append(found, opts...)...)
}

// validToken returns an error for a token that a header cannot contain. The error does not
// contain the token.
func validToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &Error{Reason: ErrInvalid.Reason, Message: "the token has a character that is not valid in a header, such as a line break"}
	}
	return nil
}

// bearer provides the token that is sent with every call and stream; nil: none.
type bearer struct {
	give func(anew bool) (string, error) // anew: do not use a cached token
}

const authorization = "authorization"

// token returns the token to send.
func (b *bearer) token(anew bool) (string, error) {
	token, err := b.give(anew)
	if _, known := err.(*Error); err != nil && !known {
		err = unreachable(NotDone, "the token function failed: "+err.Error())
	}
	if err == nil && token == "" {
		err = &Error{Reason: ErrInvalid.Reason, Message: "the token function returned no token"}
	}
	if err == nil {
		err = validToken(token)
	}
	return token, err
}

// another returns the token to send after the one sent was refused, or "" if there is no other.
func (b *bearer) another(shown string) string {
	if token, err := b.token(true); err == nil && token != shown {
		return token
	}
	return ""
}

func show(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, authorization, "Bearer "+token)
}

// call is a grpc.UnaryClientInterceptor. A call that is refused because of its token, and so has
// had no effect, is repeated once with another one.
func (b *bearer) call(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	shown, err := b.token(false)
	if err != nil {
		return err
	}
	err = invoke(show(ctx, shown), method, request, answer, conn, opts...)
	if err == nil {
		return nil
	}
	if failure := fromRPC(err); failure.Is(ErrUnauthenticated) && failure.Outcome == NotDone {
		if token := b.another(shown); token != "" {
			return invoke(show(ctx, token), method, request, answer, conn, opts...)
		}
	}
	return err
}

// stream is a grpc.StreamClientInterceptor.
func (b *bearer) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return b.open(ctx, func(ctx context.Context) (grpc.ClientStream, error) { return open(ctx, desc, conn, method, opts...) })
}

// open opens a stream with the token.
func (b *bearer) open(ctx context.Context, open func(context.Context) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	if b == nil {
		return open(ctx)
	}
	shown, err := b.token(false)
	if err != nil {
		return nil, err
	}
	stream, err := open(show(ctx, shown))
	if err != nil {
		return nil, err
	}
	return &shownStream{stream, b, shown}, nil
}

// shownStream is a stream with the token that was sent when it was opened.
type shownStream struct {
	grpc.ClientStream
	bearer *bearer
	shown  string
}

// RecvMsg makes the refusal of a token retryable if there is another token.
func (s *shownStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err == nil || err == io.EOF {
		return err
	}
	if failure := fromRPC(err); failure.Is(ErrUnauthenticated) {
		return s.renewed(failure)
	}
	return err
}

// renewed makes a refusal of the token retryable if there is another one.
func (s *shownStream) renewed(failure *Error) *Error {
	if failure.Is(ErrUnauthenticated) {
		failure.Retryable = s.bearer.another(s.shown) != ""
	}
	return failure
}

// refusal converts a refusal inside an append stream.
func refusal(stream grpc.ClientStream, r *strandlinev1.Refusal) *Error {
	failure := fromRefusal(r)
	if shown, ok := stream.(*shownStream); ok {
		return shown.renewed(failure)
	}
	return failure
}

// renewed reports whether a token was refused and there is another one.
func (e *Error) renewed() bool { return e.Retryable && e.Is(ErrUnauthenticated) }

// sentAlike is the refusal of what was sent with the same token as something that was refused for it:
// there is another one.
func sentAlike(failure *Error) *Error {
	if failure.Is(ErrUnauthenticated) {
		failure.Retryable = true
	}
	return failure
}

// renewal is whether a stream was opened again for another token, and no node has said since that it
// knows that one: a function that gives a wrong token after the other is not asked for ever.
type renewal bool

// once returns a failure as one that ends the tries if it is the second renewal in a row. What ends
// them reaches the application, and what it does next may be tried with another token again. Any
// other refusal is of a node that knows the token.
func (r *renewal) once(failure *Error) *Error {
	if !failure.renewed() {
		if failure.Reason != ErrUnreachable.Reason {
			*r = false
		}
		return failure
	}
	again := *failure
	again.Retryable = !bool(*r)
	*r = !*r
	return &again
}
