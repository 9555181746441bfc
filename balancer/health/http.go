package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

const (
	defaultMaxBody = 64 << 10 // without HTTPOptions.MaxBody
	mostMaxBody    = 64 << 20
)

// HTTPOptions are the settings of [HTTP]. The zero value asks for "/" with GET, in
// the clear, and takes 2xx.
type HTTPOptions struct {
	// Path of the request, with a query if there is one; default "/".
	Path string
	// Method of the request; default GET.
	Method string
	// Host is the Host header, and with TLS the name on the certificate; default the
	// target's address. Where the probe connects to is not changed by it.
	Host string
	// Header is sent with the request.
	Header http.Header
	// TLS makes it https. The config is not changed.
	TLS *tls.Config
	// Accept decides; its error is the failure. Default: any 2xx passes. Of a body
	// longer than MaxBody it gets the beginning.
	Accept func(status int, header http.Header, body []byte) error
	// MaxBody is how many bytes of an answer's body are read; default 64 KiB, at
	// most 64 MiB. The connection of a longer answer is not used again.
	MaxBody int64
}

// HTTP passes when the server answers one request as expected within the probe's
// deadline, body included. Redirects are answers like any other, so they fail by
// default. Proxies are not used. One connection per target is kept between probes.
func HTTP(o HTTPOptions) Checker {
	if o.Path == "" {
		o.Path = "/"
	}
	if o.Method == "" {
		o.Method = http.MethodGet
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Accept == nil {
		o.Accept = accept2xx
	}
	return httpChecker{options: o}
}

func accept2xx(status int, _ http.Header, _ []byte) error {
	if status < 200 || status > 299 {
		return fmt.Errorf("the server answered %d, expected is 200 to 299", status)
	}
	return nil
}

type httpChecker struct{ options HTTPOptions }

func (c httpChecker) validate() error {
	var errs []error
	if u, err := url.ParseRequestURI(c.options.Path); err != nil || u.Host != "" || c.options.Path[0] != '/' {
		errs = append(errs, fmt.Errorf("HTTPOptions.Path is %q, it has to begin with / and be a path with or without a query", c.options.Path))
	}
	if c.options.MaxBody < 0 || c.options.MaxBody > mostMaxBody {
		errs = append(errs, fmt.Errorf("HTTPOptions.MaxBody is %d, allowed are 1 byte to 64 MiB, and 0 for 64 KiB", c.options.MaxBody))
	}
	if _, err := http.NewRequest(c.options.Method, "http://host/", nil); err != nil {
		errs = append(errs, fmt.Errorf("HTTPOptions.Method: %w", err))
	}
	return errors.Join(errs...)
}

func (c httpChecker) ForTarget() Checker { return &httpTarget{options: c.options} }

// Check probes once, without keeping the connection.
func (c httpChecker) Check(ctx context.Context, t Target) error {
	one := &httpTarget{options: c.options}
	defer one.Close()
	return one.Check(ctx, t)
}

// httpTarget probes one target over one connection. It has a transport of its own,
// so that the end of the target closes what is its own and nothing else.
type httpTarget struct {
	options   HTTPOptions
	address   string
	transport *http.Transport
}

func (h *httpTarget) Check(ctx context.Context, t Target) error {
	if h.transport == nil || h.address != t.Address {
		h.Close()
		h.address, h.transport = t.Address, h.newTransport(t.Address)
	}
	err := h.ask(ctx)
	if err != nil {
		// A dial outlives the request that began it. This ends it, so that one after
		// the other does not pile up in front of a server that is silent.
		h.transport.CloseIdleConnections()
	}
	return err
}

func (h *httpTarget) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, h.options.Method, h.url(), nil)
	if err != nil {
		return err
	}
	if h.options.Header != nil {
		request.Header = h.options.Header.Clone()
	}
	response, err := h.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// One byte more than is kept: up to its end, a body lets the connection be used again.
	body, err := io.ReadAll(io.LimitReader(response.Body, h.options.MaxBody+1))
	if err != nil {
		return fmt.Errorf("reading the answer %d: %w", response.StatusCode, err)
	}
	body = body[:min(int64(len(body)), h.options.MaxBody)]
	return h.options.Accept(response.StatusCode, response.Header, body)
}

func (h *httpTarget) url() string {
	scheme, host := "http", h.options.Host
	if h.options.TLS != nil {
		scheme = "https"
	}
	if host == "" {
		host = h.address
		if network, _ := split(h.address); network == "unix" {
			host = "localhost"
		}
	}
	return scheme + "://" + host + h.options.Path
}

func (h *httpTarget) newTransport(target string) *http.Transport {
	network, address := split(target)
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		MaxIdleConnsPerHost:    1,
		DisableCompression:     true, // MaxBody counts what is read
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: defaultMaxBody,
	}
	if h.options.TLS != nil {
		t.TLSClientConfig = h.options.TLS.Clone()
	}
	return t
}

// Close closes the connection.
func (h *httpTarget) Close() error {
	if h.transport != nil {
		h.transport.CloseIdleConnections()
	}
	return nil
}
