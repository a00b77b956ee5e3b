package skills

import (
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxActive is how many skills may be active at the same time: each is told whole.
	maxActive = 8
	// maxTold is how many bytes those may have that are active beside others.
	maxTold = 256 << 10
	// maxLoaded bounds how many are active for all people of a conversation, who may have
	// different ones.
	maxLoaded = 64
	// idleTurns is for how many turns a skill stays active that is not used: as many as a
	// history keeps.
	idleTurns = 5
)

// activeSkills are the skills that are loaded in a conversation, or in a thread of a channel: by
// name, since what a skill says is taken from its source each time. It is a value of the
// thread's state.
type activeSkills struct {
	Turns  int           `json:"turns,omitzero"` // since the first was loaded
	Turn   string        `json:"turn,omitzero"`  // the last of them
	Loaded []activeSkill `json:"loaded,omitempty"`
}

type activeSkill struct {
	Skill string `json:"skill"`
	Used  int    `json:"used,omitzero"` // in which of the turns it was used last
}

// StateName is the name under which state keeps it.
func (*activeSkills) StateName() string { return "skills" }

// activeIn are those of the turn. Outside of conversations they are nobody's.
func activeIn(turn *actions.Turn) *activeSkills {
	if turn == nil || turn.Thread == nil {
		return new(activeSkills)
	}
	return state.Of[activeSkills](turn.Thread)
}

// begin counts the turn, once, and forgets the skills that were not used for too long.
func (a *activeSkills) begin(turn string) {
	if len(a.Loaded) == 0 || a.Turn == turn {
		return
	}
	a.Turn = turn
	a.Turns++
	a.drop(func(s activeSkill) bool { return s.Used+idleTurns < a.Turns })
}

func (a *activeSkills) drop(which func(activeSkill) bool) {
	if a.Loaded = slices.DeleteFunc(a.Loaded, which); len(a.Loaded) == 0 {
		*a = activeSkills{}
	}
}

func (a *activeSkills) has(skill string) bool {
	return slices.ContainsFunc(a.Loaded, func(s activeSkill) bool { return s.Skill == skill })
}

// use keeps a skill active, if it is.
func (a *activeSkills) use(skill string) {
	for i := range a.Loaded {
		if a.Loaded[i].Skill == skill {
			a.Loaded[i].Used = a.Turns
		}
	}
}

// add activates a skill of c. It is false when it was active before. Of those that are active
// only the ones that the turn has count, which are all that is told in it: nobody takes places
// from those who cannot see what is in them. The error says in words that no more can be.
func (a *activeSkills) add(c *catalogue, skill, turn string) (added bool, err error) {
	if a.has(skill) {
		a.use(skill)
		return false, nil
	}
	others, bytes := 0, 0
	for i, name := range c.names {
		if active := a.has(name); active || name == skill && len(a.Loaded) > 0 {
			bytes += len(c.told[i]())
			if active {
				others++
			}
		}
	}
	switch {
	case others > 0 && bytes > maxTold:
		return false, faultf("with the skills that are loaded it would be more than %d KiB to tell in each request", maxTold>>10)
	case others >= maxActive:
		return false, fault(fmt.Sprintf("%d skills are loaded, and no more can be", maxActive))
	case len(a.Loaded) == 0:
		a.Turn = turn
	case len(a.Loaded) == maxLoaded: // forget the one that was not used for longest
		oldest := slices.MinFunc(a.Loaded, func(a, b activeSkill) int { return a.Used - b.Used })
		a.drop(func(s activeSkill) bool { return s == oldest })
	}
	a.Loaded = append(a.Loaded, activeSkill{skill, a.Turns})
	return true, nil
}
