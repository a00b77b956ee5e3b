package inbox_test

import (
	"cmp"
	"context"
	"github.com/redis/go-redis/v9"
	"io"
	"sync/atomic"
)

// outage breaks everything that a client sends while it lasts.
type outage struct {
	lasts atomic.Bool
	tries atomic.Int64 // that it broke
	err   error        // nil: the connection breaks
}

func (o *outage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *outage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return o.hook(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (o *outage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return o.hook(func() error { return next(ctx, cmds) }, cmds...)
	}
}

func (o *outage) hook(run func() error, cmds ...redis.Cmder) error {
	if !o.lasts.Load() {
		return run()
	}
	o.tries.Add(1)
	err := cmp.Or(o.err, io.ErrUnexpectedEOF)
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}
