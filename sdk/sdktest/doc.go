// Package sdktest is a whole small deployment in one process, on real loopback
// sockets: a sharding service, named backends, and a name resolver for them,
// each of which can be made to fail on command. It is for tests of programs
// that use Slicewire, for demos, and for Slicewire's own tests.
//
// [StartCluster] starts everything; its parts also start alone:
//
//   - [ShardingService] tells clients which endpoint owns which key, and can be
//     slow, silent, wrong or gone;
//   - [Backend] is a gRPC server with a name that records each call, and can
//     die, move, hang or refuse;
//   - [Resolver] announces endpoints to any number of channels;
//   - [Gate] is a TCP forwarder that can stall or lose bytes, [Proxy] an HTTP
//     CONNECT proxy.
//
// Nothing here needs a testing.TB; [NewCluster] is a shortcut for those who
// have one. Every type is safe for concurrent use, and each Close is idempotent
// and waits until no goroutine and no descriptor of it is left. Waits take a
// context and say in their error what they were waiting for.
//
// What belongs here: the other side of the wire. Who may import it: anybody's
// tests and examples. It imports neither sdk nor balancer, so that it can test
// both.
package sdktest
