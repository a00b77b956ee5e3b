package skills

import (
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxActive is how many skills may be loaded at the same time: each is told whole.
	maxActive = 8
	// maxTold is how many bytes those may have that are loaded beside others.
	maxTold = 256 << 10
	// maxLoaded bounds how many are loaded by all people of a conversation, who may have
	// different ones.
	maxLoaded = 64
	// topicTurns is for how many turns a skill stays loaded that is not used: as many as a
	// history keeps.
	topicTurns = 5
)

// topics are the skills that are loaded in a conversation, or in a thread of a channel: by
// name, since what a skill says is taken from its source each time. It is a value of the
// thread's state.
type topics struct {
	Turns  int     `json:"turns,omitzero"` // since the first was loaded
	Turn   string  `json:"turn,omitzero"`  // the last of them
	Loaded []topic `json:"loaded,omitempty"`
}

type topic struct {
	Skill string `json:"skill"`
	Used  int    `json:"used,omitzero"` // in which of the turns it was used last
}

// StateName is the name under which state keeps it.
func (*topics) StateName() string { return "skills" }

// topicsOf are those of the turn. Outside of conversations they are nobody's.
func topicsOf(turn *actions.Turn) *topics {
	if turn == nil || turn.Thread == nil {
		return new(topics)
	}
	return state.Of[topics](turn.Thread)
}

// begin counts the turn, once, and forgets the skills that were not used for too long.
func (t *topics) begin(turn string) {
	if len(t.Loaded) == 0 || t.Turn == turn {
		return
	}
	t.Turn = turn
	t.Turns++
	t.drop(func(loaded topic) bool { return loaded.Used+topicTurns < t.Turns })
}

func (t *topics) drop(which func(topic) bool) {
	if t.Loaded = slices.DeleteFunc(t.Loaded, which); len(t.Loaded) == 0 {
		*t = topics{}
	}
}

func (t *topics) has(skill string) bool {
	return slices.ContainsFunc(t.Loaded, func(l topic) bool { return l.Skill == skill })
}

var errManyLoaded = fmt.Errorf("%d skills are loaded, and no more can be", maxActive)

var errLongLoaded = fmt.Errorf("with the skills that are loaded it would be more than %d KiB to tell in each request", maxTold>>10)

// add loads a skill. It is false when it was loaded before. Of those that are loaded only
// the ones that the turn has count, which are all that is told in it: nobody takes places
// from those who cannot see what is in them.
func (t *topics) add(skill, turn string, have func(string) bool) (added bool, err error) {
	told := 0
	for _, l := range t.Loaded {
		if have(l.Skill) {
			told++
		}
	}
	switch {
	case t.has(skill):
		t.touch(skill)
		return false, nil
	case told >= maxActive:
		return false, errManyLoaded
	case len(t.Loaded) == 0:
		t.Turn = turn
	case len(t.Loaded) == maxLoaded:
		t.forget()
	}
	t.Loaded = append(t.Loaded, topic{skill, t.Turns})
	return true, nil
}

// forget ends the topic that was not used for longest.
func (t *topics) forget() {
	oldest := 0
	for i, l := range t.Loaded {
		if l.Used < t.Loaded[oldest].Used {
			oldest = i
		}
	}
	t.Loaded = slices.Delete(t.Loaded, oldest, oldest+1)
}

// touch keeps a skill loaded, if it is.
func (t *topics) touch(skill string) {
	for i := range t.Loaded {
		if t.Loaded[i].Skill == skill {
			t.Loaded[i].Used = t.Turns
		}
	}
}
