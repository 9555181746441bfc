package sdk

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
	"unique"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// table is what calls find their group by. Immutable; a Client has one at a time.
type table struct {
	routes   map[unique.Handle[string]]*route // by the group's name
	fallback *route                           // of the default group
	byMethod *callinfo.Methods[*route]        // nil if no method has a group of its own
	groups   []*group
	pools    []*pool // each once
	topology Topology
	settings *settings
}

// route is one group in one table.
type route struct {
	group     *group
	selectors *interceptors.Selectors
}

// InGroup is a call option for the named group of targets, for one call. It wins
// over interceptors.WithGroup. Interceptors do not see it.
func InGroup(name string) grpc.CallOption { return inGroup{group: callinfo.Group(name)} }

type inGroup struct {
	grpc.EmptyCallOption
	group unique.Handle[string]
}

// find returns the route of a call; known is false where the call names a group
// that is not declared, whose name is asked.
func (t *table) find(ctx context.Context, method string, opts []grpc.CallOption) (r *route, asked unique.Handle[string], known bool) {
	has := false
	for _, o := range opts {
		if g, ok := o.(inGroup); ok {
			asked, has = g.group, true
		}
	}
	if !has {
		if call := callinfo.From(ctx); call != nil {
			asked, has = call.Group, call.HasGroup
		}
	}
	switch {
	case !has && t.byMethod != nil:
		if r, ok := t.byMethod.Find(method); ok {
			return r, asked, true
		}
		return t.fallback, asked, true
	case !has || asked == unique.Handle[string]{}:
		return t.fallback, asked, true
	}
	if r, ok := t.routes[asked]; ok {
		return r, asked, true
	}
	return t.fallback, asked, false
}

// enter finds the group of a call and enters the pool of its current target, whose
// leave has to follow.
func (c *Client) enter(ctx context.Context, method string, opts []grpc.CallOption) (*route, *pool, error) {
	told := false
	for {
		t := c.table.Load()
		if t == nil {
			return nil, nil, ErrClosed
		}
		r, asked, known := t.find(ctx, method, opts)
		if !known && !told {
			told = true
			c.unknownGroup(asked)
		}
		if !known && t.settings.refuseUnknownGroups {
			// The name is the program's and no key.
			return nil, nil, status.Errorf(codes.InvalidArgument, "slicewire: the RPC names the group %q, which is not declared", asked.Value())
		}
		// A pool is sealed after the groups, and the table, have left it: who is
		// refused finds another one, or none.
		if p := r.group.current.Load(); p.calls.enter() {
			return r, p, nil
		}
	}
}

// unknownGroups counts calls that name a group which is not declared.
type unknownGroups struct {
	count  atomic.Uint64
	logged atomic.Int64 // Unix nanoseconds of the newest log line
}

func (c *Client) unknownGroup(asked unique.Handle[string]) {
	c.unknown.count.Add(1)
	now, last := time.Now().UnixNano(), c.unknown.logged.Load()
	if now-last >= int64(time.Second) && c.unknown.logged.CompareAndSwap(last, now) {
		c.logger.Warn("an RPC names a group that is not declared", slog.String("group", asked.Value()))
	}
}
