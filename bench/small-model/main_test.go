package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// The judge is judged here, without a model. The tests are in package main: a
// program has no outside.

func registry() *actions.Registry {
	reg := actions.New()
	lists.Register(reg)
	return reg
}

func TestUtterancesAskForWhatCanBeDone(t *testing.T) {
	t.Parallel()
	all, err := utterances()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 50 {
		t.Errorf("%d utterances", len(all))
	}
	said, used := map[string]bool{}, map[string]bool{}
	for _, u := range all {
		if said[u.Text] {
			t.Errorf("%q is there twice", u.Text)
		}
		said[u.Text] = true
		var p plan.Plan
		for _, d := range u.Do {
			p.Commands = append(p.Commands, plan.Command{Kind: plan.Do, Action: d.Action, Entities: d.Entities})
			used[d.Action] = true
		}
		if len(u.Do) > 0 {
			if _, err := p.Validate(registry()); err != nil {
				t.Errorf("%q: %v", u.Text, err)
			}
		}
		if actions, entities := u.judge(p); !actions || !entities {
			t.Errorf("%q: the right plan is judged wrong", u.Text)
		}
	}
	for _, a := range registry().All() {
		if !used[a.Name] {
			t.Errorf("no utterance asks for %s", a.Name)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	u := utterance{Do: []call{{Action: "addItem", Entities: map[string]any{"list": "groceries", "item": "milk"}}}}
	for _, tt := range []struct {
		plan              string
		actions, entities bool
	}{
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":" Groceries","item":"MILK"}},{"type":"SAY","response":"Done."}]}`, true, true},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk","note":null}}]}`, true, true},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"bread"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk","note":"2"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"removeItem","entities":{"list":"groceries","item":"milk"}}]}`, false, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}}]}`, false, false},
		{`{"commands":[{"type":"SAY","response":"milk"}]}`, false, false},
	} {
		p, err := plan.Decode(tt.plan)
		if err != nil {
			t.Fatal(err)
		}
		if a, e := u.judge(p); a != tt.actions || e != tt.entities {
			t.Errorf("%s: %v, %v", tt.plan, a, e)
		}
	}
}

func TestTeamsPromptNamesEveryAction(t *testing.T) {
	t.Parallel()
	library, err := prompts.LoadFS(teams, "teams")
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := library.Prompt("sequence")
	if err != nil {
		t.Fatal(err)
	}
	text, err := prompt.Render(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range registry().All() {
		part := "  " + a.Name + ":\n    description: " + a.Description + "\n"
		if len(a.Schema.PropertyOrder) > 0 {
			part += "    parameters:\n"
		}
		_, rest, found := strings.Cut(text, part)
		for _, name := range a.Schema.PropertyOrder {
			var before string
			before, rest, _ = strings.Cut(rest, "      "+name+":\n        type: ")
			found = found && !strings.Contains(before, "\n    description: ")
		}
		if !found {
			t.Errorf("not there as it is: %s", part)
		}
	}
}

// A server that takes a schema beside json_object gets it there.
func TestSchemaBesideObject(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	client := &http.Client{Transport: besideObject{server.Client().Transport}}
	for body, want := range map[string]string{
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1}}}}`: `{"response_format":{"type":"json_object","schema":{"a":1}}}`,
		`{"response_format":{"type":"text"}}`:                                         `{"response_format":{"type":"text"}}`,
		`hello`:                                                                       `hello`,
	} {
		res, err := client.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", body, got, err)
		}
		_ = res.Body.Close()
	}
}

type modelFunc func(*models.Request) *models.Response

func (f modelFunc) Complete(_ context.Context, r *models.Request) (*models.Response, error) {
	return f(r), nil
}

func TestTheClockStandsOrGoes(t *testing.T) {
	t.Parallel()
	for _, clock := range []bool{true, false} {
		var asked *models.Request
		l := &listener{model: modelFunc(func(r *models.Request) *models.Response { asked = r; return &models.Response{} }), clock: clock}
		const now = "Be brief.\n\nToday: 2031-01-02, Thursday"
		_, err := l.Complete(t.Context(), &models.Request{Messages: []models.Message{
			{Role: "system", Text: now, WithSchema: now}, {Role: "user", Text: now},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range asked.Messages {
			got = append(got, m.Text, m.WithSchema)
		}
		const stopped = "Be brief.\n\nToday: 2026-11-21, Saturday"
		want := []string{stopped, stopped, now, ""}
		if !clock {
			want = []string{"Be brief.", "Be brief.", now, ""}
		}
		if !slices.Equal(got, want) {
			t.Errorf("clock %v: %q", clock, got)
		}
	}
}
