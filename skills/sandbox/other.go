//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
)

var errOther = errors.New("works on Linux only, on amd64 and arm64")

type job struct {
	dir, skill string
	argv       []string
}

func newJob(Config) (*job, error) { return nil, errOther }

func try(context.Context, *Sandbox) error { return errOther }

func start(context.Context, *Sandbox, *job) (Result, error) { return Result{}, errOther }

// Confine takes from this process, for good, what a parser of strangers' files does not need. An error says
// that the system cannot do that, as here.
func Confine() error { return errOther }
