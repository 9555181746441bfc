//go:build unix

package sdktest

import (
	"net/netip"
	"syscall"
)

// reserve keeps a port from being given to somebody else while nothing listens
// on it: dials are refused, as by a server that is down. It does its best, and
// returns what lets go of the port.
func reserve(address string) (release func()) {
	nothing := func() {}
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !ap.Addr().Is4() {
		return nothing
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nothing
	}
	syscall.CloseOnExec(fd)
	to := &syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	if err := syscall.Bind(fd, to); err != nil {
		// Connections that have just ended still hold the port.
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
		if err := syscall.Bind(fd, to); err != nil {
			_ = syscall.Close(fd)
			return nothing
		}
	}
	return func() { _ = syscall.Close(fd) }
}
