package interceptors

import "fmt"

// checkValue says why key cannot travel in the header, or nil. It names
// positions, counted from 1, never what stands there.
func (k *Key) checkValue(fullMethod, key string) error {
	if k.binary || key == "" {
		return nil
	}
	for i := 0; i < len(key); i++ {
		if c := key[i]; c < 0x20 || c > 0x7e {
			return k.badValue(fullMethod, fmt.Sprintf("byte %d of its %d is not printable ASCII", i+1, len(key)))
		}
	}
	// gRPC over HTTP/2, custom metadata: white space at the ends of an ASCII value
	// may be stripped on the way. grpc-go keeps it, proxies need not; the server
	// would then see another key than the one that routed.
	if key[0] == ' ' || key[len(key)-1] == ' ' {
		return k.badValue(fullMethod, "it begins or ends with a space, which a proxy may strip")
	}
	return nil
}

func (k *Key) badValue(fullMethod, why string) error {
	return &keyError{text: fmt.Sprintf(
		"the sharding key of the call to %s cannot travel in header %q: %s; use a header whose name ends in \"-bin\", which carries any bytes",
		fullMethod, k.header, why)}
}
