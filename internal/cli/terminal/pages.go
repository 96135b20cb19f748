package terminal

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"strandline.dev/internal/transport/secure"
)

const (
	// pageTime bounds how long a node takes to answer for one page.
	pageTime = 10 * time.Second
	// maxPage bounds a page; 10,000 logs have some MiB of metrics.
	maxPage = 64 << 20
)

// Pages gets pages of the nodes' HTTP ports, as the user of the command line sees them.
type Pages struct {
	client http.Client
	token  string
	scheme string
}

// Pages returns those that the flags of c can reach.
func (c *Terminal) Pages() (*Pages, error) {
	token, err := c.Token()
	if err != nil {
		return nil, err
	}
	p := &Pages{client: http.Client{Timeout: pageTime}, token: token, scheme: "http"}
	if c.Encrypted() {
		credentials, err := secure.OpenClient(c.Files)
		if err != nil {
			return nil, err
		}
		p.scheme = "https"
		p.client.Transport = &http.Transport{TLSClientConfig: credentials.Client("")}
	}
	return p, nil
}

// PageError is the answer of a node that shows no page.
type PageError struct {
	Address string
	Status  int // of HTTP
}

func (e *PageError) Error() string {
	return fmt.Sprintf("%s answers %d %s", e.Address, e.Status, http.StatusText(e.Status))
}

// GetFrom is Get of a path of the HTTP port at a HOST:PORT.
func (p *Pages) GetFrom(ctx context.Context, port, path string) ([]byte, error) {
	return p.Get(ctx, p.scheme+"://"+port+path)
}

// Get returns a page, at most 64 MiB of it. If the node refuses it, the error is a PageError.
func (p *Pages) Get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if p.token != "" && request.URL.Scheme == "https" { // a token is not shown to everybody on the way
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable { // which says what is not ready
		return nil, &PageError{address, answer.StatusCode}
	}
	return text, err
}
