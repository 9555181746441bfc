package sdk

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
)

// BenchmarkEnter is what a group costs in front of a call: the choice of group and
// target, counting the call in and out, and its result for the error ratio. "single"
// is a client of one target, which has all of it but the choice.
func BenchmarkEnter(b *testing.B) {
	const method, other = "/bench.Service/Read", "/bench.Service/Write"
	insecurely := WithTransportCredentials(insecure.NewCredentials())
	groups := WithTopology(Topology{
		Targets: []TargetConfig{
			{Name: "main", URI: "passthrough:///127.0.0.1:1", MinReady: -1},
			{Name: "replica", URI: "passthrough:///127.0.0.1:2", MinReady: -1, ErrorRatio: &failover.RatioOptions{}},
		},
		Groups: []GroupConfig{{Name: "default", Targets: []string{"main", "replica"}}, {Name: "read", Targets: []string{"replica", "main"}}},
	})
	patterns := WithGroupsByMethod(map[string]string{method: "read"})
	background := context.Background()
	for _, bc := range []struct {
		name   string
		target string
		opts   []Option
		ctx    context.Context
		method string
		call   []grpc.CallOption
		to     string
	}{
		{"single", "passthrough:///127.0.0.1:1", nil, background, other, nil, "passthrough:///127.0.0.1:1"},
		{"default", "", []Option{groups}, background, other, nil, "main"},
		{"context", "", []Option{groups}, interceptors.WithGroup(background, "default"), other, nil, "main"},
		{"option", "", []Option{groups}, background, other, []grpc.CallOption{InGroup("default")}, "main"},
		{"method-no-match", "", []Option{groups, patterns}, background, other, nil, "main"},
		{"method-error-ratio", "", []Option{groups, patterns}, background, method, nil, "replica"},
		{"context-error-ratio", "", []Option{groups}, interceptors.WithGroup(background, "read"), other, nil, "replica"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			c, err := Dial(bc.target, append(bc.opts, insecurely)...)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, p, err := c.enter(bc.ctx, bc.method, bc.call); err != nil || p.name != bc.to {
				b.Fatalf("the call goes to %v, %v; want %s", p, err, bc.to)
			} else {
				p.calls.leave()
			}
			b.ReportAllocs()
			for b.Loop() {
				_, p, err := c.enter(bc.ctx, bc.method, bc.call)
				if err != nil {
					b.Fatal(err)
				}
				c.driver.ended(p, nil)
				p.calls.leave()
			}
		})
	}
}
