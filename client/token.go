package client

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// WithToken shows a token of Admin.CreateAccessToken with every call and stream. Dial refuses
// one with a space or a line break, which no header can carry. Without certificates or WithTLS it
// can be read on the way. Default none.
func WithToken(token string) Option {
	return func(o *clientOptions) {
		o.wrongToken = validToken(token)
		o.token = nil
		if token != "" {
			o.token = func() (string, error) { return token, nil }
		}
	}
}

// WithTokenFunc calls give for the token of each call and stream, in the place of WithToken, from
// any goroutine; it must return soon: see TokenFile. Where it fails with an error that is no
// *Error, nothing is sent, and the call is tried again as if no node could be reached.
func WithTokenFunc(give func() (string, error)) Option {
	return func(o *clientOptions) { o.wrongToken, o.token = nil, give }
}

// tokenAgain is how long after a file of a token was read it is read again for a call.
const tokenAgain = time.Second

// TokenFile is a token that is kept in a file, without the space around it, for WithTokenFunc. The
// file is read again while calls are made, at most once a second, so that a token can be replaced.
// Where it cannot be read any more, or is empty as it is being written, the one read last is shown;
// ErrInvalid: none has been read.
func TokenFile(path string) func() (string, error) {
	var mu sync.Mutex
	var shown string
	var read time.Time
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if shown != "" && time.Since(read) < tokenAgain {
			return shown, nil
		}
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			if found := strings.TrimSpace(string(text)); found != "" || shown == "" {
				shown = found
			}
		case shown == "":
			return "", &Error{Reason: ErrInvalid.Reason, Message: "the token cannot be read: " + err.Error()}
		}
		read = time.Now()
		return shown, nil
	}
}

// DialEnvironment dials as the variables say that the command line takes too: STRANDLINE_SERVER
// (addresses with commas between them; 127.0.0.1:7171), STRANDLINE_TLS_CA, STRANDLINE_TLS_CERT,
// STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else STRANDLINE_TOKEN, and STRANDLINE_INSECURE. The
// options given count more. getenv is os.Getenv, or has variables of the caller's. A variable that
// is wrong, or names a file that cannot be read, is ErrInvalid.
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
		found = append(found, WithTokenFunc(TokenFile(file)))
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

// validToken is the error of a token that no header can carry, which it does not show.
func validToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &Error{Reason: ErrInvalid.Reason, Message: "the token has a character that no header can carry, such as a line break"}
	}
	return nil
}

// bearer gives the token that is shown with every call; nil: none is. It implements
// credentials.PerRPCCredentials.
type bearer func() (string, error)

const authorization = "authorization"

// header is the value of the header; empty: there is none.
func (b bearer) header() (string, error) {
	if b == nil {
		return "", nil
	}
	token, err := b()
	if _, known := err.(*Error); err != nil && !known {
		err = unreachable(NotDone, "the function that gives the token failed: "+err.Error())
	}
	if err == nil && token == "" {
		err = &Error{Reason: ErrInvalid.Reason, Message: "the function that gives the token gave none"}
	}
	if err == nil {
		err = validToken(token)
	}
	return "Bearer " + token, err
}

// showIn is ctx for a stream on a connection of its own.
func (b bearer) showIn(ctx context.Context) (context.Context, error) {
	header, err := b.header()
	if header == "" || err != nil {
		return ctx, err
	}
	return metadata.AppendToOutgoingContext(ctx, authorization, header), nil
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	header, err := b.header()
	if err != nil {
		return nil, asStatus(err)
	}
	if header == "" {
		return nil, nil
	}
	return map[string]string{authorization: header}, nil
}

// asStatus is an error of a token as gRPC hands it through to the caller.
func asStatus(err error) error {
	e := fromRPC(err)
	s, detailed := status.New(codes.Unavailable, e.Message).WithDetails(
		&errdetails.ErrorInfo{Reason: e.Reason, Domain: "strandline.dev", Metadata: map[string]string{"outcome": e.Outcome.String(), "retryable": fmt.Sprint(e.Retryable)}})
	if detailed != nil {
		return err
	}
	return s.Err()
}

func (bearer) RequireTransportSecurity() bool { return false }
