package configsource

import "strings"

// reservedHeaders must not carry a key: gRPC and HTTP/2 give them a meaning, or
// they carry credentials.
var reservedHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "content-type": true,
	"user-agent": true, "te": true, "connection": true, "keep-alive": true, "proxy-connection": true,
	"transfer-encoding": true, "upgrade": true, "host": true, "content-length": true, "-bin": true,
}

// header checks the name of a request header that carries keys (field case IM-04).
func (v *validator) header(at *path, name *string) {
	if name == nil || *name == "" {
		return
	}
	for i := range len(*name) {
		c := (*name)[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && c != '-' && c != '_' && c != '.' {
			v.wrong(at, *name, "a header's name may hold a-z, 0-9, '-', '_' and '.' (upper case is lowered)")
			return
		}
	}
	if lower := strings.ToLower(*name); reservedHeaders[lower] || strings.HasPrefix(lower, "grpc-") {
		v.wrong(at, *name, "that header is reserved; choose another one, such as x-shard-key")
	}
}
