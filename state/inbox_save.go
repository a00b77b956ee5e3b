package state

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// heldSave is a save under way of the scopes of a hold's turn. Its first group is
// that of the lane's partition, which may have no writes.
type heldSave struct {
	h      *Hold
	groups []*group
	idle   []*Scope
}

func (h *Hold) saving(scopes []*Scope) (*heldSave, error) {
	now := time.Now()
	groups, err := h.in.r.prepare(scopes, now)
	if err != nil {
		return nil, err
	}
	s := &heldSave{h: h, groups: groups, idle: h.in.r.idle(scopes, groups, now)}
	at := slices.IndexFunc(groups, func(g *group) bool { return g.partition() == h.lane.key.partition })
	if at < 0 {
		s.groups = slices.Insert(groups, 0, &group{})
	} else {
		groups[0], groups[at] = groups[at], groups[0]
	}
	return s, nil
}

func (s *heldSave) mine() *group { return s.groups[0] }

func (g *group) partition() int { return g.writes[0].scope.key.partition }

// send runs the call of the first group, to which it adds the documents, and those
// of the others behind it. Heard is told the reply to the first and when it was asked.
func (s *heldSave) send(ctx context.Context, heard func(reply list, sent time.Duration)) error {
	r, mine := s.h.in.r, s.mine()
	mine.addDocs(r.cfg.TTL)
	rest := r.calls(s.groups[1:], s.idle)
	calls := append(make([]*call, 0, 1+len(rest)), &mine.call)
	held := s.h.Err() == nil
	if held {
		calls = append(calls, rest...)
	}
	sent := s.h.in.now()
	_ = s.h.in.do(ctx, "save state", calls...) // each call has its error
	if mine.err == nil {
		heard(mine.list(), sent)
	}
	if !held {
		s.sendBehind(ctx, mine.err, rest)
	}
	for _, g := range s.groups[1:] {
		g.read()
	}
	var err error
	for _, c := range rest[len(s.groups)-1:] {
		err = cmp.Or(err, c.err)
	}
	return settle(ctx, s.groups, err)
}

// sendBehind sends the calls that had to wait for what became of the lane.
func (s *heldSave) sendBehind(ctx context.Context, lane error, calls []*call) {
	if lane == nil {
		_ = s.h.in.do(ctx, "save state", calls...)
		return
	}
	for _, c := range calls {
		c.err = lane
	}
}
