// Package sdk makes gRPC channels that send every RPC to the server that owns
// the RPC's key.
//
// [Dial] returns a [Client], which is a grpc.ClientConnInterface: any generated
// stub takes it. Give calls a key with package interceptors. A client has one
// target, or several in groups ([WithGroup]): then an RPC goes to the best target
// of its group that is available.
//
// What belongs here: dialling, options, the Client, its groups of targets and
// their pools, its status. What it is made of has rooms of its own: balancer
// routes, interceptors carry keys, balancer/failover says which target is current.
// Who may import it: users and examples; no other room does.
package sdk
