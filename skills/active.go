package skills

import (
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

const (
	maxActive = 8         // how many skills may be active at once: the prompt includes each one whole
	maxTold   = 256 << 10 // how many bytes of active skills a prompt may have when more than one is active
	// maxLoaded limits the active skills of all people in a conversation, who may have different
	// ones.
	maxLoaded = 64
	idleTurns = 5 // for how many turns an unused skill stays active: as many as the history keeps
)

// activeSkills are the skills loaded in a conversation, or in a channel thread. It keeps names
// only; the content comes from the source each time. It is a value of the thread's state.
type activeSkills struct {
	Turns  int           `json:"turns,omitzero"` // since the first skill was loaded
	Turn   string        `json:"turn,omitzero"`  // the last counted turn
	Loaded []activeSkill `json:"loaded,omitempty"`
}

type activeSkill struct {
	Skill string `json:"skill"`
	Used  int    `json:"used,omitzero"` // the turn of its last use
}

func (*activeSkills) StateName() string { return "skills" }

// activeIn returns the turn's active skills. Outside of conversations it is empty and not saved.
func activeIn(turn *actions.Turn) *activeSkills {
	if turn == nil || turn.Thread == nil {
		return new(activeSkills)
	}
	return state.Of[activeSkills](turn.Thread)
}

// begin counts the turn, once, and drops skills unused for too long.
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

// use marks the skill as used in this turn, if it is active.
func (a *activeSkills) use(skill string) {
	for i := range a.Loaded {
		if a.Loaded[i].Skill == skill {
			a.Loaded[i].Used = a.Turns
		}
	}
}

// add activates a skill of c. added is false if it was already active. The limits count only active
// skills that the turn may use, which are all that its prompt includes: nobody loses places to
// skills that they cannot see. The error says in words that no more can be loaded.
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
	case len(a.Loaded) == maxLoaded: // drop the least recently used one
		oldest := slices.MinFunc(a.Loaded, func(a, b activeSkill) int { return a.Used - b.Used })
		a.drop(func(s activeSkill) bool { return s == oldest })
	}
	a.Loaded = append(a.Loaded, activeSkill{skill, a.Turns})
	return true, nil
}
