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

func (s *Sandbox) try(context.Context) error { return errOther }

func (s *Sandbox) start(context.Context, *job) (Result, error) { return Result{}, errOther }
