package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxTries      = 3
	maxRetryAfter = 10 * time.Second
	tryPause      = 250 * time.Millisecond // doubles
)

// attemptMeta is where the key of the attempt is in a call's _meta.
const attemptMeta = "planbot/attempt"

// person is somebody whose calls are under way.
type person struct {
	slots chan struct{}
	calls int // that use it
}

// call calls a tool. It sends the call at most once, unless the call was refused before anything was done or
// the operator trusts the server's word that it may be repeated.
func (c *Connection) call(ctx context.Context, turn *actions.Turn, d definition, entities map[string]any) (actions.Result, error) {
	if actions.AttemptOf(ctx).Again && !c.repeatable(d) {
		return actions.Result{}, c.uncertain(d, errors.New("a process died during the call, and it is not made again"))
	}
	arguments, err := json.Marshal(entities)
	if err != nil {
		return actions.Result{}, err
	}
	limit := c.cfg.CallTimeout
	if own, ok := c.cfg.Timeouts[d.remote]; ok {
		limit = own
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	release, err := c.slot(limited, personOf(turn))
	if err != nil {
		if ctx.Err() != nil {
			return actions.Result{}, ctx.Err()
		}
		return actions.Fail("%s is busy with other calls. This was not done.", c.cfg.Key), nil
	}
	defer release()
	p, err := c.principalOf(limited, turn)
	for try := 1; err == nil; try++ {
		var f fate
		if f, err = c.attempt(limited, turn, p, d, arguments); err != nil {
			break
		}
		pause := max(f.after, tryPause<<(try-1))
		if !f.again || try == maxTries || pause > maxRetryAfter || !sleep(limited, pause) {
			return f.result, f.err
		}
	}
	switch {
	case errors.Is(err, connector.ErrNoUserToken), ctx.Err() != nil:
		return actions.Result{}, err
	}
	return actions.Fail("%s", c.away()), nil
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// slot waits until one more call may be made: by that person, and of all.
func (c *Connection) slot(ctx context.Context, who string) (release func(), err error) {
	c.mu.Lock()
	p := c.persons[who]
	if p == nil {
		p = &person{slots: make(chan struct{}, maxCallsOfOne)}
		c.persons[who] = p
	}
	p.calls++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.calls--; p.calls == 0 {
			delete(c.persons, who)
		}
	}
	var held []chan struct{}
	release = func() {
		for _, slots := range held {
			<-slots
		}
		leave()
	}
	for _, slots := range []chan struct{}{p.slots, c.slots} {
		select {
		case slots <- struct{}{}:
			held = append(held, slots)
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// fate is what became of a call that was sent, or was refused for good.
type fate struct {
	result actions.Result
	err    error
	again  bool          // it may be made again
	after  time.Duration // but not before
}

// attempt makes a call if the tool is still the one that was accepted. The error says that the server cannot
// be reached, and that nothing was sent.
func (c *Connection) attempt(ctx context.Context, turn *actions.Turn, p *principal, d definition, arguments json.RawMessage) (fate, error) {
	l, s, err := c.ensure(ctx, p)
	if err != nil {
		return fate{}, err
	}
	if now, listed := l.sound[d.remote]; !listed {
		return fate{result: actions.Fail("%s of %s is no longer there. It was not called.", spelling.OneLine(d.remote, maxShown), c.cfg.Key)}, nil
	} else if now.digest != d.digest || !c.accepts(d) {
		return fate{result: actions.Fail("%s of %s has changed, and nobody has accepted the change yet. It was not called.", spelling.OneLine(d.remote, maxShown), c.cfg.Key)}, nil
	}
	x, err := s.send(ctx, d.remote, arguments)
	f := c.fateOf(ctx, turn, s, d, x, err)
	return f, nil
}

// send sends a call and returns what became of it. The error is the library's.
func (s *session) send(ctx context.Context, remote string, arguments json.RawMessage) (*exchange, error) {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exchange{limit: maxBody, abort: cancel}
	params := &sdk.CallToolParams{Name: remote, Arguments: arguments}
	if key := actions.AttemptOf(ctx).Key; key != "" {
		params.Meta = sdk.Meta{attemptMeta: key}
	}
	_, err := s.client.CallTool(x.follow(following), params)
	return x.outcome(), err
}

// Codes of JSON-RPC with which a server refuses a call, and what they ask for.
const (
	codeBadParams  = -32602
	codeNeedsInput = -32021 // a capability that we do not have
	codeNeedsURL   = -32042 // that somebody opens a link
)

// fateOf judges what became of a call.
func (c *Connection) fateOf(ctx context.Context, turn *actions.Turn, s *session, d definition, x *exchange, err error) fate {
	refused := x.status >= 400 && x.status < 500 && x.status != http.StatusRequestTimeout && x.status != http.StatusConflict
	if refused && x.status != http.StatusTooManyRequests && (x.answer == nil || x.status == http.StatusUnauthorized) {
		c.kill(s) // the server has forgotten it, or does not want us
	}
	switch a := x.answer; {
	case a != nil && a.Error == nil:
		return c.readResult(ctx, turn, d, a.Result)
	case a != nil && (x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable),
		x.status == http.StatusTooManyRequests:
		return fate{result: actions.Fail("%s is busy. This was not done.", c.cfg.Key), again: a != nil, after: x.retryAfter}
	case x.status == http.StatusUnauthorized, x.status == http.StatusForbidden:
		c.log.Error().Int("status", x.status).Str("tool", spelling.OneLine(d.remote, maxShown)).Msg("an MCP server does not allow a call")
		return fate{result: actions.Fail("%s does not allow this. It was not done.", c.cfg.Key)}
	case a != nil && (a.Error.Code == codeNeedsInput || a.Error.Code == codeNeedsURL):
		return c.asked(ctx, turn, d, nil)
	case a != nil && a.Error.Code == codeBadParams:
		return fate{result: actions.Fail("%s", spelling.OneLine(a.Error.Message, maxDescription))}
	case a != nil:
		return fate{err: fmt.Errorf("%s of %s: %w", spelling.OneLine(d.remote, maxShown), c.cfg.Key, a.Error)}
	case x.redirect != "":
		return fate{err: fmt.Errorf("%s of %s: %w", spelling.OneLine(d.remote, maxShown), c.cfg.Key, x.fault)}
	case !x.sent:
		if errors.Is(err, sdk.ErrConnectionClosed) || s.http == nil {
			c.kill(s)
		}
		s.stale.Store(true) // the next one finds out whether it is away
		return fate{result: actions.Fail("%s", c.away()), again: true}
	case x.tooLarge:
		return fate{result: unreadable}
	case x.status == http.StatusNotFound:
		return fate{result: actions.Fail("%s has lost the connection. This was not done.", c.cfg.Key)}
	case refused:
		return fate{err: fmt.Errorf("%s of %s: %w", spelling.OneLine(d.remote, maxShown), c.cfg.Key, x.fault)}
	}
	if errors.Is(err, sdk.ErrConnectionClosed) || s.http == nil && ctx.Err() == nil {
		c.kill(s)
	}
	s.stale.Store(true)
	if c.repeatable(d) {
		return fate{result: actions.Fail("%s did not answer.", c.cfg.Key), again: true}
	}
	return fate{err: c.uncertain(d, reason(ctx, x, err, c.cfg.URL))}
}

// uncertain is the error of a call of which nobody knows whether it was done.
func (c *Connection) uncertain(d definition, why error) error {
	return fmt.Errorf("%s of %s: %w: %w", spelling.OneLine(d.remote, maxShown), c.cfg.Key, actions.ErrUncertain, why)
}

// kill gives up a session, in the background. The next call makes another.
func (c *Connection) kill(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.dead.Swap(true) && !c.closed {
		c.work.Go(s.close)
	}
}
