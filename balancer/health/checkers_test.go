package health_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// probe asks once, as a worker would.
func probe(t *testing.T, c health.Checker, address string, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return c.Check(ctx, health.Target{Name: "server", Address: address})
}

const (
	ample = 10 * time.Second       // for what answers
	short = 100 * time.Millisecond // for what does not
)

func wantPass(t *testing.T, c health.Checker, address string) {
	t.Helper()
	if err := probe(t, c, address, ample); err != nil {
		t.Errorf("the probe failed: %v", err)
	}
}

func wantFailure(t *testing.T, c health.Checker, address string, timeout time.Duration, text string) {
	t.Helper()
	err := probe(t, c, address, timeout)
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the probe says %v, want a failure with %q", err, text)
	}
}

// listen accepts connections and says nothing, until the test ends.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func hostOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestP25TCP(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	wantPass(t, health.TCP(), l.Addr().String())
	wantFailure(t, health.TCP(), closedPort(t), ample, "refused")
	wantFailure(t, health.TCP(), "no port", ample, "missing port")

	path := filepath.Join(t.TempDir(), "s")
	listen(t, "unix", path)
	wantPass(t, health.TCP(), path)
	wantPass(t, health.TCP(), "unix:"+path)
	wantPass(t, health.TCP(), "unix://"+path)
}

func TestP25TLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()
	address := hostOf(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())

	wantPass(t, health.TLS(&tls.Config{RootCAs: roots}), address)
	wantPass(t, health.TLS(&tls.Config{RootCAs: roots, ServerName: "example.com"}), address)
	wantFailure(t, health.TLS(&tls.Config{RootCAs: roots, ServerName: "wrong.test"}), address, ample, "wrong.test")
	wantFailure(t, health.TLS(nil), address, ample, "unknown authority")
	wantFailure(t, health.TLS(nil), closedPort(t), ample, "refused")
	// A server that accepts and never answers the handshake.
	err := probe(t, health.TLS(nil), listen(t, "tcp", "127.0.0.1:0").Addr().String(), short)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
}

func TestP25HTTP(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.Header.Get("X-Probe"), r.URL.RawQuery)
	})
	mux.HandleFunc("/503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/302", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/dribble", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ".")
			w.(http.Flusher).Flush()
			select {
			case <-time.After(10 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	address := hostOf(t, s)
	at := func(path string) health.Checker { return health.HTTP(health.HTTPOptions{Path: path}) }

	wantPass(t, at("/ok"), address)
	wantFailure(t, at(""), address, ample, "answered 404, expected is 200 to 299")
	wantFailure(t, at("/503"), address, ample, "answered 503")
	wantFailure(t, at("/302"), address, ample, "answered 302")
	wantFailure(t, at("/ok"), closedPort(t), ample, "refused")
	wantPass(t, at("/endless"), address) // the body is bounded, and the status decides
	for path, checker := range map[string]health.Checker{"no header": at("/slow"), "an endless body in small pieces": at("/dribble")} {
		if err := probe(t, checker, address, short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a deadline", path, err)
		}
	}

	var saw string
	wantFailure(t, health.HTTP(health.HTTPOptions{
		Path: "/ok?deep=1", Method: http.MethodPost, Host: "shop.test", Header: http.Header{"X-Probe": {"yes"}},
		Accept: func(status int, header http.Header, body []byte) error {
			saw = fmt.Sprintf("%d %s %s", status, body, header.Get("Content-Type"))
			return errBroken
		},
	}), address, ample, "broken")
	if want := "200 POST shop.test yes deep=1 text/plain; charset=utf-8"; saw != want {
		t.Errorf("the validator saw %q, want %q", saw, want)
	}
	var size int
	wantPass(t, health.HTTP(health.HTTPOptions{
		Path: "/endless", MaxBody: 1000,
		Accept: func(_ int, _ http.Header, body []byte) error { size = len(body); return nil },
	}), address)
	if size != 1000 {
		t.Errorf("the validator saw %d bytes, want 1000", size)
	}
}

func TestP25HTTPS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	address := hostOf(t, s)
	wantPass(t, health.HTTP(health.HTTPOptions{TLS: &tls.Config{RootCAs: roots}}), address)
	wantPass(t, health.HTTP(health.HTTPOptions{TLS: &tls.Config{RootCAs: roots}, Host: "example.com"}), address)
	wantFailure(t, health.HTTP(health.HTTPOptions{TLS: &tls.Config{RootCAs: roots}, Host: "wrong.test"}), address, ample, "wrong.test")
	wantFailure(t, health.HTTP(health.HTTPOptions{TLS: &tls.Config{}}), address, ample, "unknown authority")
}

func TestP25PortOverride(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	_, port, err := net.SplitHostPort(hostOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	wantPass(t, health.OnPort(n, health.HTTP(health.HTTPOptions{})), closedPort(t))
	wantPass(t, health.OnPort(n, health.TCP()), "127.0.0.1:1")
	wantFailure(t, health.OnPort(n, health.TCP()), "/a/path", ample, "no host and port")
	wantFailure(t, health.OnPort(n, health.TCP()), "127.0.0.1", ample, "missing port")
}

// One connection per target is used again, and closed with the target.
func TestP25HTTPConnectionReuse(t *testing.T) {
	for name, wrap := range map[string]func(port int, c health.Checker) health.Checker{
		"same port": func(_ int, c health.Checker) health.Checker { return c },
		"on a port": health.OnPort,
	} {
		t.Run(name, func(t *testing.T) {
			var opened, closed atomic.Int64
			requests := make(chan struct{}, 100)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "fine")
				requests <- struct{}{}
			}))
			allClosed := make(chan struct{}, 100)
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					opened.Add(1)
				case http.StateClosed:
					closed.Add(1)
					allClosed <- struct{}{}
				}
			}
			s.Start()
			defer s.Close()
			port := s.Listener.Addr().(*net.TCPAddr).Port
			r := newRegistry(t, health.Options{Checker: wrap(port, health.HTTP(health.HTTPOptions{})), Interval: 50 * time.Millisecond, Jitter: -1})
			defer r.Close()
			v := newView(t, r, nil, named(hostOf(t, s))...)
			for range 10 {
				<-requests
			}
			if n := opened.Load(); r.Stats().Failed == 0 && n != 1 {
				t.Errorf("%d connections for 10 probes, want 1", n)
			}
			before := closed.Load()
			v.Close()
			if before < opened.Load() {
				<-allClosed
			}
		})
	}
}
