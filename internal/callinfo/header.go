package callinfo

import (
	"fmt"
	"strings"
)

// ParseHeader returns the canonical (lower case) form of a header name that may
// carry a sharding key, or an error that names the header and says what is
// allowed. Names that end in "-bin" carry any bytes, others printable ASCII
// (field case IM-04).
func ParseHeader(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("the header name is empty; it needs at least one of a-z, 0-9, '-', '_', '.'")
	}
	for i := 0; i < len(name); i++ {
		// The name as given is checked, not its lower case: strings.ToLower turns
		// the Kelvin sign into a plain k, which would route by a header nobody wrote.
		if !headerByte(name[i]) {
			return "", fmt.Errorf("header name %q is malformed: byte %d of its %d is not allowed; allowed are a-z, 0-9, '-', '_', '.' (upper case is lowered)", name, i+1, len(name))
		}
	}
	h := strings.ToLower(name)
	if strings.HasPrefix(h, "grpc-") {
		return "", fmt.Errorf("header name %q is reserved: names that start with \"grpc-\" belong to gRPC; choose another, such as \"x-shard-key\"", name)
	}
	switch h {
	case "-bin":
		return "", fmt.Errorf("header name %q has nothing before \"-bin\"; write a name there, such as \"x-shard-key-bin\"", name)
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return "", fmt.Errorf("header name %q is reserved: it carries credentials, which the key would replace; choose another, such as \"x-shard-key\"", name)
	case "content-type", "user-agent", "te":
		return "", fmt.Errorf("header name %q is reserved: gRPC sets it itself; choose another, such as \"x-shard-key\"", name)
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host", "content-length":
		return "", fmt.Errorf("header name %q is reserved: HTTP/2 forbids it or gives it a meaning of its own; choose another, such as \"x-shard-key\"", name)
	}
	return h, nil
}

func headerByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_' || c == '.'
}

// BinaryHeader says whether the header carries any bytes.
func BinaryHeader(header string) bool { return strings.HasSuffix(header, "-bin") }
