package sdktest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Option configures a server: a [ShardingService] or a [Backend].
type Option func(*options)

type options struct {
	address  string
	server   []grpc.ServerOption
	register []func(grpc.ServiceRegistrar)
}

func newOptions(opts []Option) options {
	o := options{address: "127.0.0.1:0"}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithAddress listens on address. The default is a free port of 127.0.0.1.
func WithAddress(address string) Option {
	return func(o *options) { o.address = address }
}

// WithCredentials serves with creds. The default is plaintext.
func WithCredentials(creds credentials.TransportCredentials) Option {
	return WithServerOptions(grpc.Creds(creds))
}

// WithServerOptions adds options of the gRPC server, such as keepalive.
func WithServerOptions(opts ...grpc.ServerOption) Option {
	return func(o *options) { o.server = append(o.server, opts...) }
}

// WithServices registers services of yours. It is called each time the server
// is made anew: at the start, by Restart and by GoAway.
func WithServices(register func(grpc.ServiceRegistrar)) Option {
	return func(o *options) { o.register = append(o.register, register) }
}
