// Package sdk makes gRPC channels that send every RPC to the server that owns
// the RPC's key.
//
// [Dial] returns a [Client], which is a grpc.ClientConnInterface: any generated
// stub takes it. Give calls a key with package interceptors.
//
// What belongs here: dialling, options, the Client, its status. What it is made
// of has rooms of its own: balancer routes, interceptors carry keys. Who may
// import it: users and examples; no other room does.
package sdk
