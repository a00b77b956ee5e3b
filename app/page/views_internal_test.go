package page

import (
	"context"
	"strings"
	"testing"
	"time"

	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/testing/markuptest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// This test is inside the package: it makes what views show without a bot that would have it.

// checkView sends markup through every field of a view.
func checkView[T any](t *testing.T, name string, view func(p *Page, v T) g.Node) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		p, err := New(Config{Name: "Hedda"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		markuptest.Check(t, func(v T) (string, error) {
			var out strings.Builder
			err := view(p, v).Render(&out)
			return out.String(), err
		})
	})
}

func TestMarkupStaysText(t *testing.T) {
	t.Parallel()
	checkView(t, "document", func(_ *Page, v struct{ Title, Bot string }) g.Node {
		p, err := New(Config{Name: v.Bot})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.document(v.Title, "/dev/", nil)
	})
	checkView(t, "fault", func(_ *Page, v struct{ Title, Why string }) g.Node { return faultPage(v.Title, v.Why) })
	checkView(t, "faults", (*Page).faultsPage)
	for _, kind := range []string{"personal", "groupChat", "channel"} {
		checkView(t, "chat, "+kind, func(p *Page, v workbenchView) g.Node {
			v.Room.Kind = kind
			for i := range v.Messages {
				m := p.shown(v.Messages[i].message, v.Room) // with HTML that is made of the text
				m.Cards = append(m.Cards, v.Messages[i].Cards...)
				v.Messages[i].HTML = m.HTML
			}
			return p.workbenchPage(v)
		})
	}
	checkView(t, "chat, nobody has said anything", func(p *Page, v workbenchView) g.Node {
		v.Messages = nil
		v.Turn = nil
		return p.workbenchPage(v)
	})
	checkView(t, "a card and a file", func(p *Page, v struct{ Title, File, Kind string }) g.Node {
		card := jsonText(map[string]any{"body": []any{map[string]any{"type": "TextBlock", "text": v.Title}}}, "")
		return p.shown(message{Activity: &activity.Activity{Attachments: []activity.Attachment{
			{ContentType: activity.CardContentType, Content: []byte(card)},
			{ContentType: v.Kind, Name: v.File},
		}}}, snapshot{}).html(nil)
	})
	checkView(t, "turns", (*Page).turnsPage)
	checkView(t, "turn", (*Page).turnPage)
	checkView(t, "compare", func(_ *Page, v compareView) g.Node { return v.html() })
	checkView(t, "save", (*Page).savePage)
	checkView(t, "what-if", (*Page).whatIfPage)
	checkView(t, "actions", func(_ *Page, v []actionShown) g.Node { return actionsPage(v) })
	for _, kind := range []string{"text", "number", "choice", "json"} {
		checkView(t, "action, "+kind, func(p *Page, v actionView) g.Node {
			for i := range v.Fields {
				v.Fields[i].Kind = kind
			}
			return p.actionPage(v)
		})
	}
	checkView(t, "action that has run", func(p *Page, v actionView) g.Node {
		v.Run.Fault = ""
		return p.actionPage(v)
	})
	checkView(t, "prompts", func(_ *Page, v struct {
		Folders []folder
		Fault   string
	},
	) g.Node {
		return promptsPage(v.Folders, v.Fault)
	})
	checkView(t, "prompt", (*Page).promptPage)
	checkView(t, "prompt with a preview", func(p *Page, v promptView) g.Node {
		v.Preview.Fault = ""
		return p.promptPage(v)
	})
	checkView(t, "skills", func(_ *Page, v skillsView) g.Node { return v.html() })
	checkView(t, "settings", (*Page).settingsPage)
	for _, kind := range []string{"counter", "gauge", "histogram"} {
		checkView(t, "numbers, "+kind, func(_ *Page, v []tile) g.Node {
			for i := range v {
				v[i].Kind = kind
			}
			return numbersPage(v)
		})
	}
	checkView(t, "parked", (*Page).parkedPage)
	checkView(t, "drop", (*Page).dropPage)
	checkView(t, "evals", func(_ *Page, v evalsView) g.Node { return v.html() })
}

// TestWhatWasSent is found among the messages, also where a text that would be markup was broken.
func TestWhatWasSent(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plans := func(responses ...string) (all []turnlog.Plan) {
		for i, one := range responses {
			commands := []turnlog.PlanCommand{{Kind: plan.Do, Action: "find"}, {Kind: plan.Say, Response: one}}
			all = append(all, turnlog.Plan{At: at.Add(time.Duration(i) * time.Minute), Commands: commands})
		}
		return all
	}
	for name, c := range map[string]struct {
		plans   []turnlog.Plan
		calls   int // of the action, in the first plans
		sent    string
		after   time.Duration
		results string
	}{
		"broken markup":   {plans("x <b>y for $name"), 1, "x <\u200bb>y for Mia", 0, "sent"},
		"another text":    {plans("x <b>y for $name"), 1, "x y for Mia", 0, "not sent"},
		"numbered anew":   {plans("Two years [3]."), 1, "Two years [1].", 0, "sent"},
		"of no passage":   {plans("Five years [1], six months [2]."), 1, "Five years, six months.", 0, "sent"},
		"of a later plan": {plans("$R1", "Nothing was found."), 2, "Nothing was found.", time.Minute, "not sent, sent"},
		"of no plan":      {plans("$R1"), 0, "Otto approved this.", 0, "not sent"},
	} {
		rec := turnlog.Record{Plans: c.plans, Sent: []turnlog.Sent{{Text: c.sent, At: at.Add(c.after), Activity: []byte(`{}`)}}}
		for i := range c.calls {
			rec.Commands = append(rec.Commands, turnlog.Command{Plan: i + 1, Number: 1})
		}
		v, got := &turnView{Record: rec}, []string{}
		for i, p := range c.plans {
			got = append(got, v.said(i+1, 2, p.Commands[1]).Result)
		}
		if strings.Join(got, ", ") != c.results {
			t.Errorf("%s: %q, want %s", name, got, c.results)
		}
	}
}

// TestPlanGist: the line of a plan says which of its actions did not do what was asked.
// question is a planner that would ask that.
type question []models.Message

func (question) Plan(context.Context, *actions.Turn) (p plan.Plan, err error) { return p, nil }

func (q question) Messages(context.Context, *actions.Turn) ([]models.Message, error) { return q, nil }

// TestCostOf: what a model counted is what the next question costs, but for what differs.
func TestCostOf(t *testing.T) {
	t.Parallel()
	sections := []turnlog.Section{{Role: "user", Text: "12345"}, {Role: "user", Text: "left out", Left: true}, {Role: "request", Text: "123"}}
	for in, want := range map[int]int{0: 18, 100: 102, 1: 3} {
		rec := turnlog.Record{Rounds: []turnlog.Round{{Sections: sections, Answer: &turnlog.Answer{In: in}}}}
		got, err := costOf(t.Context(), func(text string) int { return len(text) }, trial{Planner: question{{Text: "1234567"}}}, rec, changes{Text: "x"})
		if err != nil || got.Question != want {
			t.Errorf("behind %d tokens: %d, %v, want %d", in, got.Question, err, want)
		}
	}
}

func TestPlanGist(t *testing.T) {
	t.Parallel()
	got := planGist([]step{{Kind: plan.Do, Action: "a", Result: "ok"}, {Kind: plan.Do, Action: "b", Result: "unchanged"}, {Kind: plan.Say, Result: "sent"}})
	if got != "a, b (unchanged), 1 message" {
		t.Error(got)
	}
}

// TestCompared: of two long texts, the lines that differ are told from those that do not.
func TestCompared(t *testing.T) {
	t.Parallel()
	long := func(item string) string {
		return `{"list":"groceries","item":"` + item + `","note":"the same in both of them"}`
	}
	v := compareView{Parts: []comparedPart{{"Answer", []sides{{"answer 1", long("milk"), long("tea")}}}}}
	var out strings.Builder
	if err := v.html().Render(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<del>−   &#34;item&#34;: &#34;milk&#34;", "<ins>+   &#34;item&#34;: &#34;tea&#34;", "<span>    &#34;list&#34;"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out.String())
		}
	}
}
