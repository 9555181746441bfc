package health

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// GRPC asks the gRPC health service of the server (grpc.health.v1.Health/Check) for
// the named service, "" for the server as a whole. It passes on SERVING. A server
// without the health service passes with one warning (field case HR-09).
//
// The question goes over the live connection of one of the clients that share the
// registry, so the server sees no connection for it. While none of them is
// connected there is no verdict: a channel that is idle says nothing against its
// server, and the connectivity state already says what connecting found.
//
// Only a target that no view has a Conn for is dialled, with the options given here,
// which must hold transport credentials; that connection is kept between probes.
func GRPC(service string, dial ...grpc.DialOption) Checker {
	return grpcChecker{service: service, dial: dial}
}

type grpcChecker struct {
	service string
	dial    []grpc.DialOption
}

func (c grpcChecker) ForTarget() Checker { return &grpcTarget{grpcChecker: c} }

// Check probes once; a connection that has to be dialled is not kept.
func (c grpcChecker) Check(ctx context.Context, t Target) error {
	one := &grpcTarget{grpcChecker: c}
	defer one.Close()
	return one.Check(ctx, t)
}

// grpcTarget probes one target.
type grpcTarget struct {
	grpcChecker
	address string
	conn    *grpc.ClientConn // nil unless dialled here
}

func (g *grpcTarget) Check(ctx context.Context, t Target) error {
	if t.Conn == nil {
		return g.checkDialled(ctx, t.Address)
	}
	g.Close() // there was no live connection to be had before, now there is
	live := t.Conn()
	if live == nil {
		return fmt.Errorf("%w: no client is connected to it", ErrNoVerdict)
	}
	err := g.ask(ctx, live)
	if status.Code(err) == codes.Unavailable && t.Conn() == nil {
		return fmt.Errorf("%w: the connection was lost meanwhile: %w", ErrNoVerdict, err)
	}
	return err
}

func (g *grpcTarget) checkDialled(ctx context.Context, address string) error {
	if g.conn != nil && g.address != address {
		g.Close()
	}
	if g.conn == nil {
		conn, err := grpc.NewClient(dialTarget(address), g.dial...)
		if err != nil {
			return fmt.Errorf("no client offers a connection, and GRPC's dial options do not make one: %w", err)
		}
		g.address, g.conn = address, conn
	}
	err := g.ask(ctx, g.conn)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		// A channel that failed waits longer and longer before it dials again, and one
		// that is silent may be dead. The schedule of the registry decides when to try
		// again, so the next probe has a new one.
		g.Close()
	}
	return err
}

func (g *grpcTarget) ask(ctx context.Context, conn grpc.ClientConnInterface) error {
	answer, err := healthgrpc.NewHealthClient(conn).Check(ctx, &healthgrpc.HealthCheckRequest{Service: g.service})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("%w: %w", ErrNoHealthService, err)
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("the health service does not know the service %q: %w", g.service, err)
	case err != nil:
		return err
	case answer.GetStatus() != healthgrpc.HealthCheckResponse_SERVING:
		return errors.New("the health service says " + answer.GetStatus().String())
	}
	return nil
}

// Close closes the connection that was dialled, if any.
func (g *grpcTarget) Close() error {
	if g.conn == nil {
		return nil
	}
	conn := g.conn
	g.conn = nil
	return conn.Close()
}

// dialTarget is the address as it is: it was resolved before.
func dialTarget(address string) string {
	if network, path := split(address); network == "unix" {
		return "unix:" + path
	}
	return "passthrough:///" + address
}
