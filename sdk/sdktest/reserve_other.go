//go:build !unix

package sdktest

func reserve(string) (release func()) { return func() {} }
