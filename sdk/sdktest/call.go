package sdktest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Call is one call as a backend received it. A retry is a call of its own.
type Call struct {
	Method   string // full name, with the leading slash
	Metadata metadata.MD
	Peer     string // address of the caller's connection
	Text     string // what Echo.Who said
	Time     time.Time
}

// maxCalls bounds the memory of a backend under load.
const maxCalls = 1 << 16

// Calls returns the calls received, in order of arrival: the last 65,536.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(lastCalls(b.calls))
}

// Keys returns every value of the header in the calls that Calls returns.
func (b *Backend) Keys(header string) []string {
	var keys []string
	for _, c := range b.Calls() {
		keys = append(keys, c.Metadata.Get(header)...)
	}
	return keys
}

// Count is how many calls have been received.
func (b *Backend) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Forget starts the record and the count anew, between two parts of a test.
func (b *Backend) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.count = nil, 0
	b.changed.raise()
}

// InFlight is how many calls are not finished, held ones among them.
func (b *Backend) InFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}

// WaitCalls waits until n calls have been received.
func (b *Backend) WaitCalls(ctx context.Context, n int) error {
	return b.changed.await(ctx, &b.mu, func() bool { return b.count >= n },
		fmt.Sprintf("%d calls to backend %s", n, b.name), b.haveCalls)
}

// WaitInFlight waits until exactly n calls are in flight.
func (b *Backend) WaitInFlight(ctx context.Context, n int) error {
	return b.changed.await(ctx, &b.mu, func() bool { return b.inFlight == n },
		fmt.Sprintf("%d calls in flight at backend %s", n, b.name), b.haveCalls)
}

// haveCalls words what the waits have seen. b.mu is held.
func (b *Backend) haveCalls() string {
	return fmt.Sprintf("%d received, %d in flight", b.count, b.inFlight)
}

func lastCalls(calls []Call) []Call { return calls[max(0, len(calls)-maxCalls):] }

func (b *Backend) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	var text string
	if s, ok := req.(*wrapperspb.StringValue); ok && info.FullMethod == EchoWho {
		text = s.GetValue()
	}
	defer b.end()
	if err := b.begin(ctx, info.FullMethod, text); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (b *Backend) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	defer b.end()
	if err := b.begin(s.Context(), info.FullMethod, ""); err != nil {
		return err
	}
	return handle(srv, s)
}

// begin records a call and puts it through the faults of the moment. end must
// follow in any case.
func (b *Backend) begin(ctx context.Context, method, text string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	call := Call{Method: method, Metadata: md.Copy(), Text: text, Time: time.Now()}
	if p, ok := peer.FromContext(ctx); ok {
		call.Peer = addrString(p.Addr)
	}
	b.mu.Lock()
	if len(b.calls) >= 2*maxCalls {
		b.calls = slices.Clone(lastCalls(b.calls))
	}
	b.calls = append(b.calls, call)
	b.count++
	b.inFlight++
	t := b.trouble
	fail := t.fail
	if t.nextLeft > 0 {
		b.trouble.nextLeft--
		fail = t.next
	}
	b.changed.raise()
	b.mu.Unlock()

	if t.slow > 0 {
		timer := time.NewTimer(t.slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if t.hold != nil {
		select {
		case <-t.hold:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if fail != codes.OK {
		return status.Errorf(fail, "sdktest: backend %s was told to fail", b.name)
	}
	return nil
}

func (b *Backend) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.changed.raise()
}

func addrString(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}
