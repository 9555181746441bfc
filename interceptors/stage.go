package interceptors

import (
	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// stage says how near its call a context is, which decides what becomes of the
// record in it.
type stage int

const (
	asked  stage = iota // the context may make several calls
	begins              // one call begins here, whatever the context was used for
	within              // the call begins here, or has begun further out
)

// next returns a record for a call of method on cc that asks for what rec asks.
// The caller changes it before anybody sees it.
func (st stage) next(rec *callinfo.Call, cc *grpc.ClientConn, method string) *callinfo.Call {
	if st == within && rec.Is(cc, method) {
		return rec.Within()
	}
	next := rec.Again()
	if st != asked {
		next.Begin(cc, method)
	}
	return next
}
