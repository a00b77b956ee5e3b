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
	unused error // why not all idle scopes were noted as in use
}

func (h *Hold) saving(scopes []*Scope, now time.Time) (*heldSave, error) {
	groups, err := h.in.r.prepare(scopes, now)
	if err != nil {
		return nil, err
	}
	s := &heldSave{h: h, groups: groups}
	at := slices.IndexFunc(groups, func(g *group) bool { return g.partition() == h.lane.key.partition })
	if at < 0 {
		s.groups = slices.Insert(groups, 0, &group{})
	} else {
		groups[0], groups[at] = groups[at], groups[0]
	}
	return s, nil
}

func (s *heldSave) mine() *group { return s.groups[0] }

// done reports whether the step of the lane's partition happened.
func (s *heldSave) done() bool { return s.mine().err == nil && len(s.mine().lost) == 0 }

func (g *group) partition() int { return g.writes[0].scope.key.partition }

// send runs the call of the first group, to which it adds the documents. Heard is
// told the reply and when it was asked. Only when that step is done the calls of the
// others follow: otherwise no journal knew of what they write, or the lane may be
// another's. What was not sent is no part of the save any more.
func (s *heldSave) send(ctx context.Context, heard func(reply list, sent time.Duration)) {
	r, mine := s.h.in.r, s.mine()
	mine.addDocs(r.cfg.TTL)
	sent := s.h.in.now()
	_ = s.h.in.do(ctx, "save state", &mine.call) // each call has its error
	if mine.err == nil {
		heard(mine.list(), sent)
	}
	if !s.done() {
		s.groups = s.groups[:1]
		return
	}
	others := s.groups[1:]
	calls := r.calls(others, s.idle)
	if len(calls) == 0 {
		return
	}
	_ = s.h.in.do(ctx, "save state", calls...)
	for _, g := range others {
		g.read()
	}
	for _, c := range calls[len(others):] {
		s.unused = cmp.Or(s.unused, c.err)
	}
}

// settle tells the scopes, and makes the error of the save.
func (s *heldSave) settle(ctx context.Context) error { return settle(ctx, s.groups, s.unused) }
