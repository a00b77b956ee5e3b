package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// groups knows that Ada leads a team, and that Ada and Otto plan a party, unless it fails.
type groups struct{ fails bool }

func (g *groups) of(_ context.Context, _, person string) ([]string, error) {
	switch {
	case g.fails:
		return nil, errors.New("the directory is away")
	case person == "aad-Ada": // as the kit calls her
		return []string{"leads", "party"}, nil
	case person == "aad-Otto":
		return []string{"party"}, nil
	}
	return nil, nil
}

// test runs f with the bot on the offline model, which answers with the passage that fits best.
func test(t *testing.T, g *groups, f func(t *testing.T, kit *bottest.Kit)) {
	t.Helper()
	cfg := bottest.Config{Name: "Handbook", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, handbook(g.of), models.Offline{}, parts.Bot)
	}}
	bottest.Test(t, cfg, f)
}

// TestAnswers: an answer has its source, with an address.
func TestAnswers(t *testing.T) {
	t.Parallel()
	test(t, &groups{}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		mia.Say("Search the documents for hotels in Zurich.")
		got := mia.Next()
		raw := got.JSON
		if !strings.HasPrefix(got.Activity.Text, "A night may cost up to 120 euros") || !strings.HasSuffix(got.Activity.Text, "[1]") ||
			!strings.Contains(raw, `"name":"Expenses and travel › Hotels"`) || !strings.Contains(raw, `"url":"https://intranet.contoso.example/handbook/en/expenses.md"`) {
			t.Errorf("%s", raw)
		}
		mia.Say("What do the documents say about xylophones?")
		mia.Expect("Nothing was found in the documents.")
	})
}

// TestRights: three people ask alone, and together. In a group everybody reads the answer, so there it comes
// from pages for everybody.
func TestRights(t *testing.T) {
	t.Parallel()
	const bonus, party = "Team leads get a bonus of 8 % if nobody of their team has left within the year. [1]",
		"The surprise party for Mia is on 4 May in the canteen. She must not know of it. [1]"
	test(t, &groups{}, func(t *testing.T, kit *bottest.Kit) {
		for person, knows := range map[string]string{"Ada": bonus + party, "Otto": party, "Mia": ""} {
			alone := kit.Personal(person)
			for question, answer := range map[string]string{"bonus": bonus, "surprise canteen": party} {
				alone.Say("search the documents for " + question)
				if got := alone.Next(); (got.Activity.Text == answer) != strings.Contains(knows, answer) || strings.Contains(got.JSON, "bonus.md") != (got.Activity.Text == bonus) {
					t.Errorf("%s about %s: %s", person, question, got.JSON)
				}
			}
			together := kit.Conversation("19:all@thread.v2", "groupChat", person)
			together.Mention("search the documents for surprise canteen")
			together.Expect("Nothing was found in the documents.")
			together.Mention("search the documents for passwords characters")
			together.ExpectMatch("at least 14 characters")
		}
	})
}

// TestGroupsAreAway: without the directory a person reads what needs no group, and hears that something is
// missing.
func TestGroupsAreAway(t *testing.T) {
	t.Parallel()
	test(t, &groups{fails: true}, func(t *testing.T, kit *bottest.Kit) {
		ada := kit.Personal("Ada")
		ada.Say("search the documents for bonus")
		ada.Expect("The documents could not be searched.")
		ada.Say("search the documents for passwords characters")
		ada.ExpectMatch("at least 14 characters")
	})
}

// TestTwoTurnsAtOnce: nobody gets the sources of another's turn.
func TestTwoTurnsAtOnce(t *testing.T) {
	t.Parallel()
	test(t, &groups{}, func(t *testing.T, kit *bottest.Kit) {
		wants := map[string]string{"Mia": "Expenses and travel › Hotels", "Otto": "Computers and security › Passwords"}
		for range 200 {
			kit.Together(
				func() { kit.Personal("Mia").Say("search the documents for hotels in Zurich") },
				func() { kit.Personal("Otto").Say("search the documents for passwords with characters") },
			)
			for person, want := range wants {
				got := kit.Personal(person).Next().JSON
				if strings.Count(got, `"@type":"Claim"`) != 1 || !strings.Contains(got, `"name":"`+want+`"`) {
					t.Fatalf("%s got %s", person, got)
				}
			}
		}
	})
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, handbook((&groups{}).of), "scenarios.yaml")
}
