package sdktest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// descriptors counts this process's open files.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("cannot count descriptors here: %v", err)
	}
	return len(entries)
}

// Whatever happened to it, a thing that is closed has no descriptor left; that
// it has no goroutine left is for TestMain to see.
func TestCloseLeavesNothing(t *testing.T) {
	round := func() {
		c := must[*Cluster](t)(StartCluster("h1", "h2", "h3"))
		g := must[*Gate](t)(StartGate(c.Backend("h1").Addr()))
		p := must[*Proxy](t)(StartProxy(nil))
		cc := must[*grpc.ClientConn](t)(grpc.NewClient(g.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))
		talk := must[*EchoStream](t)(NewEcho(cc).Talk(patience(t)))
		if _, err := talk.Ask("?"); err != nil {
			t.Fatal(err)
		}
		for _, op := range []func() error{
			c.Backend("h1").Move, c.Backend("h1").GoAway, c.Backend("h2").BlackHole, c.Sharding().BlackHole, c.Sharding().Restart,
		} {
			if err := op(); err != nil {
				t.Fatal(err)
			}
		}
		c.Backend("h3").Kill()
		g.Pause()
		if err := talk.Send("?"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.Close()
			g.Close()
			p.Close()
		}
		_ = cc.Close()
	}
	round() // what the runtime opens once
	before := descriptors(t)
	for range 10 {
		round()
	}
	deadline := time.Now().Add(5 * time.Second)
	for descriptors(t) > before && time.Now().Before(deadline) { // the client's own may take a moment
		time.Sleep(5 * time.Millisecond)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// PF-03: a server that limits the age of its connections.
func TestBackendServerOptions(t *testing.T) {
	b := startBackend(t, "h1", WithServerOptions(grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 50 * time.Millisecond,
	})))
	e := NewEcho(dial(t, b.Addr()))
	ctx := patience(t)
	for b.Connections().Accepted < 3 {
		if _, err := e.Who(ctx, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackendCredentials(t *testing.T) {
	certs := httptest.NewTLSServer(nil) // for its certificate
	defer certs.Close()
	pool := certs.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	b := startBackend(t, "h1", WithCredentials(credentials.NewServerTLSFromCert(&certs.TLS.Certificates[0])))
	cc := dial(t, b.Addr(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS12,
	})))
	wantWho(t, NewEcho(cc), "h1")
}
