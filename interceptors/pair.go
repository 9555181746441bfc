package interceptors

import (
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
)

// Pair is one thing done to unary calls and to streams. Either may be nil where
// there is nothing to do.
type Pair struct {
	Unary  grpc.UnaryClientInterceptor
	Stream grpc.StreamClientInterceptor
}

// Only returns a Pair that acts on the calls that m matches and lets the others
// through. See [ForMethods] and [ExceptMethods].
func (p Pair) Only(m selector.Matcher) Pair {
	var only Pair
	if p.Unary != nil {
		only.Unary = selector.UnaryClientInterceptor(p.Unary, m)
	}
	if p.Stream != nil {
		only.Stream = selector.StreamClientInterceptor(p.Stream, m)
	}
	return only
}

// Chain returns the dial options that put the pairs on a channel, the first one
// outermost. An order that suits most: key, logging, retry, timeout.
func Chain(pairs ...Pair) []grpc.DialOption {
	var unary []grpc.UnaryClientInterceptor
	var stream []grpc.StreamClientInterceptor
	for _, p := range pairs {
		if p.Unary != nil {
			unary = append(unary, p.Unary)
		}
		if p.Stream != nil {
			stream = append(stream, p.Stream)
		}
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary...), grpc.WithChainStreamInterceptor(stream...)}
}
