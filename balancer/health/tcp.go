package health

import (
	"context"
	"crypto/tls"
	"net"
)

// TCP passes when a connection can be opened. It is closed at once.
func TCP() Checker { return tcpChecker{} }

type tcpChecker struct{}

func (tcpChecker) Check(ctx context.Context, t Target) error {
	network, address := split(t.Address)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	// Closing is all that is left to do, and the verdict stands.
	_ = conn.Close()
	return nil
}

// TLS passes when a handshake succeeds and the server's certificate is good for the
// host of the target, or for config.ServerName. A nil config trusts the system's
// roots. The config is not changed.
func TLS(config *tls.Config) Checker { return tlsChecker{config: config} }

type tlsChecker struct{ config *tls.Config }

func (c tlsChecker) Check(ctx context.Context, t Target) error {
	network, address := split(t.Address)
	conn, err := (&tls.Dialer{Config: c.config}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	_ = conn.Close() // as in tcpChecker
	return nil
}
