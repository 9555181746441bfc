package sdktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func startGate(t *testing.T, target string) *Gate {
	t.Helper()
	g := must[*Gate](t)(StartGate(target))
	t.Cleanup(g.Close)
	return g
}

func TestGate(t *testing.T) {
	b1, b2 := startBackend(t, "h1"), startBackend(t, "h2")
	g := startGate(t, b1.Addr())
	e := NewEcho(dial(t, g.Addr()))
	ctx := patience(t)
	inVain := func(what string) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 60*time.Millisecond)
		defer cancel()
		if _, err := e.Who(short, ""); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("%s: %v, want silence", what, err)
		}
	}
	wantWho(t, e, "h1")

	g.Pause()
	inVain("paused")
	g.Resume()
	wantWho(t, e, "h1")
	if c := g.Connections(); c.Accepted != 1 || c.Live != 1 {
		t.Errorf("a pause lost the connection: %+v", c)
	}

	g.BlackHole()
	inVain("black hole")
	g.Redirect(b2.Addr())
	g.Heal()
	wantWhoSoon(t, e, "h2")
	if err := g.WaitConnections(ctx, 2); err != nil {
		t.Fatal(err)
	}

	g.Pause()
	inVain("paused again")
	g.Cut() // a stalled copy ends too
	if err := b2.WaitLive(ctx, 0); err != nil {
		t.Fatal(err)
	}
	g.Close()
	g.Close()
}

func TestProxyAnswers(t *testing.T) {
	b := startBackend(t, "h1")
	p := must[*Proxy](t)(StartProxy(map[string]string{"h1.test:443": b.Addr()}))
	t.Cleanup(p.Close)
	p.Route("gone.test:443", "127.0.0.1:1")
	tests := []struct {
		method, host string
		want         int
	}{
		{http.MethodConnect, "h1.test:443", http.StatusOK},
		{http.MethodConnect, "h9.test:443", http.StatusNotFound},
		{http.MethodConnect, "gone.test:443", http.StatusBadGateway},
		{http.MethodGet, "h1.test:443", http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		c := must[net.Conn](t)(net.Dial("tcp", p.Addr()))
		t.Cleanup(func() { _ = c.Close() })
		target := tt.host
		if tt.method == http.MethodGet {
			target = "/"
		}
		if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", tt.method, target, tt.host); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: tt.method})
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.host, resp.StatusCode, tt.want)
		}
	}
	want := []string{"h1.test:443", "h9.test:443", "gone.test:443"}
	if got := p.Connects(); !slices.Equal(got, want) {
		t.Errorf("connects %q, want %q", got, want)
	}
	p.Close()
	p.Close()
}

// HTTPS_PROXY is read once per process, so the client is a process of its
// own.
func TestProxyServesGRPC(t *testing.T) {
	if os.Getenv("HTTPS_PROXY_CHILD") != "" {
		name, err := NewEcho(dial(t, "passthrough:///h1.test:443")).Who(patience(t), "")
		fmt.Printf("answered by %s, %v\n", name, err)
		return
	}
	b := startBackend(t, "h1")
	p := must[*Proxy](t)(StartProxy(map[string]string{"h1.test:443": b.Addr()}))
	t.Cleanup(p.Close)
	self := must[string](t)(os.Executable())
	cmd := exec.CommandContext(patience(t), self, "-test.run=^TestProxyServesGRPC$", "-test.v")
	cmd.Env = append(os.Environ(), "HTTPS_PROXY_CHILD=1", "HTTPS_PROXY="+p.URL(), "NO_PROXY=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if b.Count() != 1 || len(p.Connects()) != 1 {
		t.Errorf("%d calls through %q\n%s", b.Count(), p.Connects(), out)
	}
}

// Nothing speaks first and nothing is answered.
func TestBlackHoleIsSilent(t *testing.T) {
	b := startBackend(t, "h1")
	if err := b.BlackHole(); err != nil {
		t.Fatal(err)
	}
	c := must[net.Conn](t)(net.Dial("tcp", b.Addr()))
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.WaitLive(patience(t), 0); err != nil {
		t.Error(err)
	}
}
