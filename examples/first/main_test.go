package main

import (
	"regexp"
	"testing"

	"github.com/planbot-go/planbot/internal/fakechat"
	"github.com/planbot-go/planbot/models"
)

func TestFirst(t *testing.T) {
	t.Parallel()
	chat := fakechat.With(t, models.Offline{}, newBot)
	for _, step := range []struct{ say, want string }{
		{"rollDice sides=20", `roll 1 is a (1?\d|20)\b`},
		{"rollDice", `roll 2 is a [1-6]\b`},
		{"rollDice sides=1", `at least 2 sides`},
	} {
		chat.Say(step.say)
		if got := chat.Connector.Next(t).Text(); !regexp.MustCompile(step.want).MatchString(got) {
			t.Errorf("%q: got %q, want %s", step.say, got, step.want)
		}
	}
}
