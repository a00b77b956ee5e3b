package app

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/models"
)

// TestFaultyFeatures are told with the mistakes in settings, and nothing panics.
func TestFaultyFeatures(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]Feature{
		"app.Feature: number 1 has no Name":          {},
		"app.Feature x: Settings: int is no pointer": {Name: "x", Settings: 3},
		"no pointer to a struct":                     {Name: "x", Settings: struct{ A int }{}},
		"the field A: has no tag env": {Name: "x", Settings: &struct {
			A int `help:"a"`
		}{}},
		"the field A: has no tag help": {Name: "x", Settings: &struct {
			A int `env:"AAA"`
		}{}},
		"the field a: is not exported": {Name: "x", Settings: &struct {
			a int `env:"AAA" help:"a"`
		}{}},
		`the field A: "a b" is no variable`: {Name: "x", Settings: &struct {
			A int `env:"a b" help:"a"`
		}{}},
		"the field A: there is a setting BOT_ADDR": {Name: "x", Settings: &struct {
			A int `env:"BOT_ADDR" help:"a"`
		}{}},
		"the field A: there is a setting HELP": {Name: "x", Settings: &struct {
			A int `env:"HELP" help:"a"`
		}{}},
		"the field A: no setting is a []int": {Name: "x", Settings: &struct {
			A []int `env:"AAA" help:"a"`
		}{}},
		`the tag default: "c" is not one of a, b`: {Name: "x", Settings: &struct {
			A string `env:"AAA" help:"a" oneof:"a,b" default:"c"`
		}{}},
		`the tag min: "q" is no number`: {Name: "x", Settings: &struct {
			A int `env:"AAA" help:"a" min:"q"`
		}{}},
		"AAA: the tag needs: there is no setting BBB": {Name: "x", Settings: &struct {
			A int `env:"AAA" help:"a" needs:"BBB"`
		}{}},
		`Doctor: the check "look" has no name`:      {Name: "x", Doctor: map[string]func(context.Context, *Program) Check{"look": nil}},
		"commands of bot: int is no command":        {Name: "x", Commands: 3},
		"commands of bot a: *int is no command":     {Name: "x", Commands: &struct{ A int }{}},
		"commands of bot: a is not exported":        {Name: "x", Commands: &struct{ a int }{}},
		"commands: there are two bot serve":         {Name: "x", Commands: &struct{ Serve brew }{}},
		"the flag --port is taken":                  {Name: "x", Commands: &struct{ Boil boil }{}},
		`the default of --cups: "x" is not a whole`: {Name: "x", Commands: &struct{ Boil boil }{}},
		"app.Feature: two are called coffee":        {Name: "coffee"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			own := Bot{Name: "Barista", Planner: "tolls"}
			own.addFeatures([]Feature{f})
			if f.Name == "coffee" {
				own.addFeatures([]Feature{f, f})
			}
			code := run(t.Context(), own, []string{"serve", "--bot-max-steps=x"}, &cli.Streams{Out: &out, Err: &out})
			if code != cli.ExitUsage || !strings.Contains(out.String(), want) {
				t.Errorf("exit code %d\n%s", code, out.String())
			}
			for _, other := range []string{"app.Bot.Planner: ", "BOT_MAX_STEPS: "} {
				if !strings.Contains(out.String(), other) {
					t.Errorf("no %s in\n%s", other, out.String())
				}
			}
		})
	}
	t.Run("New", func(t *testing.T) {
		t.Parallel()
		own := Bot{Name: "Barista", Features: func() []Feature { return []Feature{{Name: "x", Settings: 3}} }}
		if _, err := New(t.Context(), own, models.Offline{}, bot.Config{}); err == nil || !strings.Contains(err.Error(), "Feature x") {
			t.Errorf("got %v", err)
		}
	})
}

type brew struct{}

func (brew) Run(context.Context, *Program) error { return nil }

type boil struct {
	Port int `help:"hides a setting"`
	Cups int `help:"how many" default:"x"`
}

func (boil) Run(context.Context, *Program) error { return nil }

// TestDefaultsWithoutAnEnvironment: what Go leaves out of the settings of a feature has its default.
func TestDefaultsWithoutAnEnvironment(t *testing.T) {
	t.Parallel()
	var desk struct {
		Opens  int `env:"DESK_OPENS" default:"6" help:"hour"`
		Closes int `env:"DESK_CLOSES" default:"18" help:"hour"`
	}
	desk.Closes = 20
	b := Bot{Name: "Desk", Features: func() []Feature { return []Feature{{Name: "desk", Settings: &desk}} }}
	made, err := New(t.Context(), b, models.Offline{}, bot.Config{})
	if err != nil {
		t.Fatal(err)
	}
	discard(made)
	if desk.Opens != 6 || desk.Closes != 20 {
		t.Errorf("got %+v", desk)
	}
}
