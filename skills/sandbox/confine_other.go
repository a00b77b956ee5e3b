//go:build !linux || !(amd64 || arm64)

package sandbox

// Confine takes from this process, for good, what a parser of strangers' files does not need. An error says
// that the system cannot do that, as here.
func Confine() error { return errOther }
