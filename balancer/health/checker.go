package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
)

// Target is one server as one view knows it.
type Target struct {
	// Name is what the view calls it, unique in the view; it is what the view's
	// notify gets.
	Name string
	// Address is where it is probed: "host:port", or a unix socket as "unix:path" or
	// an absolute path.
	Address string
	// Conn gives the live connection of the view's channel, or a nil interface while
	// there is none. It is called at each probe, from any goroutine, and must not
	// block. A nil func: the view has no connection to offer, and [GRPC] dials.
	Conn func() grpc.ClientConnInterface
}

// Checker probes one target. Check returns nil if the server works; an error that
// wraps [ErrNoVerdict] or [ErrNoHealthService] is special, any other is a failure.
// It must return when ctx is done (see "What delays what" in the package comment);
// a panic is a failure. It is called by several goroutines at once, for different
// targets.
type Checker interface {
	Check(ctx context.Context, t Target) error
}

// Stateful is a [Checker] that keeps something for each target, such as a
// connection. The registry calls ForTarget before the first probe of a target and
// probes with the result, one probe at a time. If the result is an [io.Closer], its
// Close is called once, after the last probe of the target.
type Stateful interface {
	Checker
	ForTarget() Checker
}

// Func is a checker made of a function.
type Func func(ctx context.Context, t Target) error

// Check calls f.
func (f Func) Check(ctx context.Context, t Target) error { return f(ctx, t) }

func (f Func) validate() error {
	if f == nil {
		return errors.New("the function of the checker is nil")
	}
	return nil
}

var (
	// ErrNoVerdict says that the probe learned nothing of the server. It counts for
	// neither threshold and interrupts neither; the next probe comes after an interval.
	ErrNoVerdict = errors.New("health: the probe says nothing about the server")
	// ErrNoHealthService says that the server answers and has no health service. It
	// counts as passed, with one warning for each target (field case HR-09).
	ErrNoHealthService = errors.New("health: the server has no health service")
)

// OnPort makes c probe another port of the same host. A target's live connection
// is not used: it leads to the port that serves.
func OnPort(port int, c Checker) Checker { return onPort{port: port, checker: c} }

type onPort struct {
	port    int
	checker Checker
}

func (o onPort) Check(ctx context.Context, t Target) error {
	network, address := split(t.Address)
	if network != "tcp" {
		return fmt.Errorf("a port cannot be set on %q, which is no host and port", t.Address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	t.Address, t.Conn = net.JoinHostPort(host, strconv.Itoa(o.port)), nil
	return o.checker.Check(ctx, t)
}

func (o onPort) ForTarget() Checker {
	s, ok := o.checker.(Stateful)
	if !ok {
		return o
	}
	one := onPort{port: o.port, checker: s.ForTarget()}
	if c, ok := one.checker.(io.Closer); ok {
		return struct {
			Checker
			io.Closer
		}{one, c}
	}
	return one
}

func (o onPort) validate() error {
	if o.port < 1 || o.port > 65535 {
		return fmt.Errorf("the port to probe is %d, allowed are 1 to 65535", o.port)
	}
	return validateChecker(o.checker)
}

// validateChecker finds the mistakes that can be seen before the first probe.
func validateChecker(c Checker) error {
	if c == nil {
		return errors.New("there is no Checker; use TCP, TLS, HTTP, GRPC or a Func")
	}
	if v, ok := c.(interface{ validate() error }); ok {
		return v.validate()
	}
	return nil
}

// split gives network and address as package net wants them.
func split(address string) (network, rest string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	if strings.HasPrefix(address, "/") {
		return "unix", address
	}
	return "tcp", address
}
