package sdk_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	template := certTemplate(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, key := sign(t, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	a.pool.AddCert(cert)
	return a
}

func certTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign makes a key and its certificate, signed by a, or by itself.
func sign(t *testing.T, template *x509.Certificate, a *authority) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, by := template, key
	if a != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// certificate is one for a host of that name.
func (a *authority) certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	der, key := sign(t, certTemplate(name), a)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secured are backends that speak TLS, each with a name resolver of its name as
// scheme.
type secured struct {
	places
	resolvers []sdk.Option

	mu    sync.Mutex // guards names
	names map[string][]string
}

// start starts a backend with a certificate for its own name under .test.
func (s *secured) start(t *testing.T, name string, a *authority, clients *x509.CertPool) {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{a.certificate(t, name+".test")}}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, clients
	}
	config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.names[name] = append(s.names[name], h.ServerName)
		return nil, nil
	}
	b, err := sdktest.StartBackend(name, sdktest.WithCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := sdktest.NewResolver(name)
	r.SetEndpoints(sdktest.Endpoint("", b.Addr()))
	s.places[name] = b
	s.resolvers = append(s.resolvers, sdk.WithResolvers(r))
}

// asked are the server names that clients of the backend have asked for.
func (s *secured) asked(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.names[name]))
}

// The TLS server name and the :authority follow the target, not the group's first
// one, and Authority says which.
func TestG20ServerNameFollowsTheTarget(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca.test")
	s := &secured{places: make(places), names: make(map[string][]string)}
	s.start(t, "main", ca, nil)
	s.start(t, "fallback", ca, nil)
	top := sdk.Topology{
		Targets: []sdk.TargetConfig{{Name: "main", URI: "main:///main.test:443"}, {Name: "fallback", URI: "fallback:///fallback.test"}},
		Groups:  []sdk.GroupConfig{group("default", "main", "fallback")},
	}
	client := dialGroups(t, top, append(s.resolvers,
		sdk.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: ca.pool})))...)
	g := client.Group("")
	for _, step := range []struct{ target, authority string }{{"main", "main.test:443"}, {"fallback", "fallback.test"}, {"main", "main.test:443"}} {
		if err := client.SetTargetEnabled("main", step.target == "main", "a drill"); err != nil {
			t.Fatal(err)
		}
		served(t, client, "default", step.target)
		if got := g.Authority(); got != step.authority {
			t.Errorf("at %q the authority is %q, want %q", step.target, got, step.authority)
		}
		calls := s.places[step.target].Calls()
		if got := calls[len(calls)-1].Metadata.Get(":authority"); !slices.Equal(got, []string{step.authority}) {
			t.Errorf("the RPC's :authority at %q is %q, want %q", step.target, got, step.authority)
		}
	}
	for _, name := range []string{"main", "fallback"} {
		if got := s.asked(name); !slices.Equal(got, []string{name + ".test"}) {
			t.Errorf("%q was asked for the server names %q", name, got)
		}
	}
}

// The credentials of a profile secure the targets that name it, and no other: not
// another target at the same address.
func TestG17ProfileCredentials(t *testing.T) {
	t.Parallel()
	public, private := newAuthority(t, "public.test"), newAuthority(t, "private.test")
	s := &secured{places: make(places), names: make(map[string][]string)}
	s.start(t, "main", public, nil)
	s.start(t, "vault", private, private.pool)
	mutual := credentials.NewTLS(&tls.Config{RootCAs: private.pool, Certificates: []tls.Certificate{private.certificate(t, "client.test")}})
	top := sdk.Topology{
		Targets: []sdk.TargetConfig{
			{Name: "main", URI: "main:///main.test"},
			{Name: "vault", URI: "vault:///vault.test", Profile: "mutual"},
			{Name: "vault without", URI: "vault:///vault.test"},
			{Name: "main with", URI: "main:///main.test", Profile: "mutual"},
		},
		Groups: []sdk.GroupConfig{
			group("default", "main", "vault"), group("vault", "vault", "main"),
			group("vault without", "vault without"), group("main with", "main with"),
		},
	}
	client := dialGroups(t, top, append(s.resolvers,
		sdk.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: public.pool})),
		sdk.WithDialProfile("mutual", sdk.WithTransportCredentials(mutual)))...)
	if n := len(client.Status().Targets); n != 4 {
		t.Errorf("%d pools, want 4", n)
	}
	served(t, client, "default", "main")
	served(t, client, "vault", "vault")
	s.places["main"].Kill()
	served(t, client, "default", "vault")
	if err := s.places["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vault without", "main with"} {
		a := one(client, name, 5*time.Second)
		if status.Code(a.err) != codes.Unavailable || !strings.Contains(a.err.Error(), "certificate") {
			t.Errorf("group %q with the other credentials: answered by %q, %v", name, a.from, a.err)
		}
	}
}
