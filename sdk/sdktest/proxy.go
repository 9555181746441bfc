package sdktest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Proxy is an HTTP CONNECT proxy that knows where names lead. It takes the place
// of both the proxy and the DNS behind it: a client that names h1.test:443 gets a
// connection to a backend.
type Proxy struct {
	relay relay

	mu       sync.Mutex // guards what follows
	routes   map[string]string
	connects []string
}

// StartProxy starts a proxy. Routes go from what a client asks for, such as
// "h1.test:443", to an address.
func StartProxy(routes map[string]string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sdktest: cannot listen: %w", err)
	}
	p := &Proxy{routes: make(map[string]string, len(routes))}
	maps.Copy(p.routes, routes)
	p.relay.start(l, p.serve)
	return p, nil
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.relay.listener.Addr().String() }

// URL is the value for HTTPS_PROXY. Go reads that variable once per process and
// never uses a proxy for loopback addresses.
func (p *Proxy) URL() string { return "http://" + p.Addr() }

// Route adds or changes a route.
func (p *Proxy) Route(name, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[name] = addr
}

// Connects returns what clients have asked for, in order, the unknown too.
func (p *Proxy) Connects() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.connects)
}

// Connections counts the connections to the proxy.
func (p *Proxy) Connections() Connections { return p.relay.in.counts() }

// Cut closes the connections there are.
func (p *Proxy) Cut() { p.relay.cut() }

// Close cuts every connection, closes the port, and waits.
func (p *Proxy) Close() { p.relay.close() }

func (p *Proxy) serve(client net.Conn) {
	reader := bufio.NewReader(client)
	req, err := http.ReadRequest(reader)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect {
		answer(client, http.StatusMethodNotAllowed)
		return
	}
	p.mu.Lock()
	p.connects = append(p.connects, req.Host)
	addr, known := p.routes[req.Host]
	p.mu.Unlock()
	if !known {
		answer(client, http.StatusNotFound)
		return
	}
	server, err := p.relay.dial(addr)
	if err != nil {
		answer(client, http.StatusBadGateway)
		return
	}
	answer(client, http.StatusOK)
	p.relay.join(&bufferedConn{Conn: client, reader: reader}, server, nil)
}

// answer writes a status line; a client that is gone by then needs none.
func answer(w io.Writer, code int) {
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n\r\n", code, http.StatusText(code))
}

// bufferedConn gives back what was read beyond the request.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *bufferedConn) Read(b []byte) (int, error) { return c.reader.Read(b) }
