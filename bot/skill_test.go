package bot_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// talents are skills that a test can see.
type talents struct{}

type talent struct {
	Words string `json:"words,omitempty"`
}

func (talents) Policy(next actions.Policy) actions.Policy {
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if state.Of[talent](turn.Thread).Words == "singing" {
			return actions.Approval{Denied: "not while singing"}, nil
		}
		return next(ctx, turn, call)
	}
}

func (talents) Command(_ context.Context, turn *actions.Turn, words string) (reply, rest string, err error) {
	name, rest, _ := strings.Cut(words, " ")
	if name == "broken" {
		return "", "", errors.New("broken")
	}
	state.Of[talent](turn.Thread).Words = name
	return "I am " + name + " now.", rest, nil
}

func (talents) Reset(turn *actions.Turn) { *state.Of[talent](turn.Thread) = talent{} }

func TestSkillCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.Skills = talents{} })
		b.say("/Skill singing")
		b.expect("I am singing now.")
		b.model.Says(plan(do("addItem", `{"list":"l","item":"i"}`), say("Added.")), plan(say("Not now.")))
		b.say("add i to l")
		b.expect("Not now.")
		if prompt := b.model.Calls()[1].Text(); !strings.Contains(prompt, "not while singing") {
			t.Errorf("prompt %s", prompt)
		}
		b.say("/reset")
		b.connector.Next(t)
		b.model.Says(plan(do("addItem", `{"list":"l","item":"i"}`), say("Added.")))
		b.say("/skill  dancing add i to l")
		b.expect("Added.")
		calls := b.model.Calls()
		if prompt := calls[len(calls)-1].Text(); !strings.Contains(prompt, "user: add i to l") || strings.Contains(prompt, "dancing") {
			t.Errorf("prompt %s", prompt)
		}
		b.say("/skill")
		b.expect("I am  now.")
		b.say("/skill broken")
		b.expectFault("went wrong")
		b.say("help")
		if got := b.connector.Next(t); !strings.Contains(asCard(t, got)["body"].([]any)[0].(map[string]any)["text"].(string), "/skill") {
			t.Errorf("help %v", got.Body)
		}
		b.say("/skills")
		if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, "I don't know the command `/skills`.") || !strings.Contains(got, "**/skill**") {
			t.Errorf("told %q", got)
		}
	})
}

func TestWithoutSkillsThereIsNoCommand(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.say("/skill singing")
		if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, "I don't know the command `/skill`.") || strings.Contains(got, "**/skill**") {
			t.Errorf("told %q", got)
		}
	})
}

// TestALongListOfSkillsIsToldInParts, each of which the channel takes.
func TestALongListOfSkillsIsToldInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.Skills = talents{} })
		name := strings.Repeat("long", 9_000)
		b.say("/skill " + name)
		var got strings.Builder
		for range 3 {
			got.WriteString(b.connector.Next(t).Text())
		}
		if got.String() != "I am "+name+" now." {
			t.Errorf("told %d characters", got.Len())
		}
	})
}
