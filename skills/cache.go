package skills

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/actions"
)

const defaultMaxKeys = 1000

// CacheConfig says how long, and for whom, a list of skills is kept. The zero value keeps
// one for all, for good.
type CacheConfig struct {
	// Key names those who share a list, such as turn.Activity's tenant for a source that
	// has other skills for each; turns of one key have to get the same. turn is nil
	// outside of turns. nil: all share one list.
	Key func(turn *actions.Turn) string
	// TTL is how long a list is kept, from when it was asked for. 0: for good; less: not
	// at all, then only those who ask at the same time share it.
	TTL time.Duration
	// MaxKeys is how many lists are kept; the oldest gives way. 0: 1000.
	MaxKeys int
}

func (c CacheConfig) check() error {
	if c.MaxKeys < 0 {
		return errors.New("MaxKeys is negative")
	}
	return nil
}

// Cache keeps the skills of s. Those who ask for the same list while it is made wait for
// the one who makes it, and get its error too; an error is not kept, and when whoever makes
// the list gives up, one of those who wait makes it. It panics without s, or if cfg is wrong.
func Cache(s Source, cfg CacheConfig) Source {
	need(s != nil && cfg.check() == nil, "Cache: no source, or MaxKeys is negative")
	cfg.MaxKeys = cmp.Or(cfg.MaxKeys, defaultMaxKeys)
	return &cache{source: s, CacheConfig: cfg, slots: map[string]*slot{}}
}

type cache struct {
	CacheConfig
	source Source
	shared slot // for all, without Key

	mu    sync.RWMutex
	slots map[string]*slot
}

// slot is the place of one list.
type slot struct {
	kept atomic.Pointer[kept]

	mu     sync.Mutex
	flight *flight // the list that is being made; nil: none is
}

type kept struct {
	list []*Skill
	at   time.Time
}

// flight is a list that is being made. Its fields are read once done is closed.
type flight struct {
	done chan struct{}
	list []*Skill
	err  error
	lost bool // whoever made it gave up: this says nothing to others
}

func (c *cache) Skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
	slot := c.slot(turn)
	for {
		if list, ok := c.fresh(slot); ok {
			return list, nil
		}
		f, own := c.join(slot)
		if own {
			return c.make(ctx, turn, slot, f)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for skills: %w", ctx.Err())
		case <-f.done:
		}
		if !f.lost {
			return f.list, f.err
		}
	}
}

func (c *cache) slot(turn *actions.Turn) *slot {
	if c.Key == nil {
		return &c.shared
	}
	key := c.Key(turn)
	c.mu.RLock()
	s := c.slots[key]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots[key] == nil {
		c.makeRoom()
		c.slots[key] = &slot{}
	}
	return c.slots[key]
}

// makeRoom lets the oldest list go when there is no place for another; one that is only
// being made counts as the oldest, which costs its turns nothing.
func (c *cache) makeRoom() {
	if len(c.slots) < c.MaxKeys {
		return
	}
	var oldest string
	var since time.Time
	for key, s := range c.slots {
		k := s.kept.Load()
		if k == nil {
			oldest = key
			break
		}
		if since.IsZero() || k.at.Before(since) {
			oldest, since = key, k.at
		}
	}
	delete(c.slots, oldest)
}

func (c *cache) fresh(s *slot) ([]*Skill, bool) {
	k := s.kept.Load()
	if k == nil || c.TTL > 0 && time.Since(k.at) >= c.TTL {
		return nil, false
	}
	return k.list, true
}

// join returns the list that is being made, or else begins one. A list that has been
// finished in the meantime is one that was made.
func (c *cache) join(s *slot) (f *flight, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		return s.flight, false
	}
	f = &flight{done: make(chan struct{}), lost: true}
	if list, ok := c.fresh(s); ok {
		f.list, f.lost = list, false
		close(f.done)
		return f, false
	}
	s.flight = f
	return f, true
}

// make makes the list. Also when the source panics, those who wait go on.
func (c *cache) make(ctx context.Context, turn *actions.Turn, s *slot, f *flight) ([]*Skill, error) {
	defer func() {
		s.mu.Lock()
		s.flight = nil
		s.mu.Unlock()
		close(f.done)
	}()
	at := time.Now()
	f.list, f.err = c.source.Skills(ctx, turn)
	f.lost = f.err != nil && ctx.Err() != nil
	if f.err == nil && c.TTL >= 0 {
		s.kept.Store(&kept{f.list, at})
	}
	return f.list, f.err
}
