package teams_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
)

func find(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) {
	return teams.Answer{}, nil
}

func fill(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) {
	return teams.Answer{}, nil
}

// TestMistakes: one error lists everything that Teams would refuse.
func TestMistakes(t *testing.T) {
	t.Parallel()
	wrong := teams.Routes{
		Dialogs: map[string]teams.Dialog{"none": {}, "planbot/approve": {Submit: fill}},
		Search:  map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){"lists": nil},
		Extension: teams.Extension{
			Link:    find,
			Domains: []string{"https://contoso.com"},
			Commands: []teams.Command{
				{ID: "both", Title: "Both", Query: find, Submit: fill},
				{ID: "both", Title: strings.Repeat("x", 33), Query: find},
				{ID: "form", Title: "Form", Submit: fill},
				{ID: "sends", Title: "Sends", Fetch: fill},
				{
					ID: "", Title: "Find", Query: find, Contexts: []string{"everywhere"},
					Parameters: []teams.Parameter{{Name: "q", Title: "Q", Type: "colour"}, {Name: "c", Title: "C", Type: "choiceset"}, {Name: "", Title: "N"}},
				},
			},
		},
	}
	_, err := wrong.Invokes()
	for _, want := range []string{
		`the dialog "none" has neither`, `the dialog "planbot/approve" has a verb of the bot's own`, `the data set "lists"`, `"https://contoso.com" is no host`,
		`the command "both" is either`, `the command "both" is there twice`, `has a title of 33 characters`, `the command "both" has no Parameters`,
		`the command "form" has neither Fetch nor Parameters`, `the command "sends" has no Submit`, `the command "" has a id of 0 characters`, `the Context "everywhere"`,
		`the Type "colour"`, `has 0 Choices`, `the parameter ""`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	for _, e := range []teams.Extension{
		{Link: find, Domains: []string{"contoso.com"}},
		{Link: find, Commands: []teams.Command{{ID: "a", Title: "A", Fetch: fill, Submit: fill}}},
	} {
		r := teams.Routes{Extension: e}
		if _, err := r.Invokes(); err == nil {
			t.Errorf("%+v is not refused", e)
		}
	}
	none := teams.Routes{}
	if all, err := none.Invokes(); len(all) != 2 || !all["task/fetch"].Button || !all["task/submit"].Button || err != nil {
		t.Errorf("no routes: %v %v", all, err)
	}
}

// TestAnswers: what Teams would refuse is an error of the handler.
func TestAnswers(t *testing.T) {
	t.Parallel()
	card := activity.Card{Fallback: "x", Body: []any{}}
	item := teams.Item{Card: card, Title: "x"}
	execute := activity.Card{Fallback: "x", Actions: []any{activity.Button{Title: "x", Verb: "x"}}}
	form := &teams.Form{Card: card}
	const dialog, query, link, stranger, action = "task/submit", "composeExtension/query", "composeExtension/queryLink", "composeExtension/anonymousQueryLink", "composeExtension/submitAction"
	for _, c := range []struct {
		name   string
		answer teams.Answer
		fault  string
	}{
		{dialog, teams.Answer{Form: form}, ""},
		{dialog, teams.Answer{Form: &teams.Form{Card: jsontext.Value(`{"type":"AdaptiveCard"}`), Height: "10000"}}, ""},
		{dialog, teams.Answer{Form: form, Message: "x"}, "a Form and a Message"},
		{dialog, teams.Answer{Items: []teams.Item{item}}, "a dialog answers with"},
		{dialog, teams.Answer{Form: &teams.Form{}}, "either a Card or a URL"},
		{dialog, teams.Answer{Form: &teams.Form{Card: card, URL: "https://contoso.com"}}, "either a Card or a URL"},
		{dialog, teams.Answer{Form: &teams.Form{URL: "http://contoso.com"}}, "no https address"},
		{dialog, teams.Answer{Form: &teams.Form{URL: "https://contoso.com", FallbackURL: "ftp://x"}}, "no https address"},
		{dialog, teams.Answer{Form: &teams.Form{Card: card, Height: "huge", Width: "-1"}}, `the Width "-1"`},
		{dialog, teams.Answer{Form: &teams.Form{Card: map[string]any{"type": "Other"}}}, "no Adaptive Card"},
		{dialog, teams.Answer{Form: &teams.Form{Card: activity.Card{}}}, "without a fallback"},
		{dialog, teams.Answer{Form: &teams.Form{Card: (*activity.Card)(nil)}}, "nil"},
		{"task/fetch", teams.Answer{}, "where a form is asked for"},
		{query, teams.Answer{Items: []teams.Item{item, item}, Grid: true}, ""},
		{query, teams.Answer{Items: []teams.Item{{Card: card}}}, "the item 1: it has no Title"},
		{query, teams.Answer{Items: []teams.Item{item}, Message: "x"}, "a search answers with"},
		{query, teams.Answer{Form: form}, "a search answers with"},
		{query, teams.Answer{Settings: "x"}, "no https address"},
		{query, teams.Answer{Items: []teams.Item{{Card: card, Title: "x", Image: "http://x.com/a.png"}}}, "the Image"},
		{query, teams.Answer{Items: []teams.Item{{Card: activity.Attachment{ContentType: "application/vnd.microsoft.card.hero", Content: jsontext.Value(`{}`)}, Title: "x"}}}, ""},
		{link, teams.Answer{}, ""},
		{link, teams.Answer{Items: []teams.Item{item, item}}, "more than one"},
		{link, teams.Answer{Items: []teams.Item{item}}, ""},
		{link, teams.Answer{Items: []teams.Item{{Card: &card, Title: "x"}}}, ""},
		{link, teams.Answer{Items: []teams.Item{{Card: activity.Card{Fallback: "x", Version: "1.6"}, Title: "x"}}}, "newer than 1.5"},
		{link, teams.Answer{Items: []teams.Item{{Card: card.Attachment(), Title: "x"}}}, ""},
		{stranger, teams.Answer{Items: []teams.Item{{Card: jsontext.Value(`{"type":"AdaptiveCard","version":"1.5"}`), Title: "x"}}}, ""},
		{query, teams.Answer{Items: []teams.Item{{Card: jsontext.Value(`{"type":"AdaptiveCard","version":"1.6"}`), Title: "x"}}}, "newer than 1.5"},
		{dialog, teams.Answer{Form: &teams.Form{Card: jsontext.Value(`{"type":"AdaptiveCard","version":"2.0"}`)}}, "newer than 1.5"},
		{dialog, teams.Answer{Form: &teams.Form{Card: jsontext.Value(`{"type":"AdaptiveCard","version":1.5}`)}}, "no text"},
		{stranger, teams.Answer{Items: []teams.Item{item}}, ""},
		{stranger, teams.Answer{Message: "x"}, "Items only"},
		{stranger, teams.Answer{Items: []teams.Item{{Card: execute, Title: "x"}}}, "Action.Execute"},
		{action, teams.Answer{Preview: card}, ""},
		{action, teams.Answer{Preview: card, Message: "x"}, "a Preview and something else"},
		{action, teams.Answer{Items: []teams.Item{{Card: card}}}, ""},
		{action, teams.Answer{}, ""},
	} {
		said := func(context.Context, *bot.Turn, teams.Query) (teams.Answer, error) { return c.answer, nil }
		filled := func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) { return c.answer, nil }
		r := teams.Routes{
			Dialogs: map[string]teams.Dialog{"": {Fetch: filled, Submit: filled}},
			Extension: teams.Extension{
				Commands: []teams.Command{
					{ID: "find", Title: "Find", Parameters: []teams.Parameter{{Name: "q", Title: "Q"}}, Query: said},
					{ID: "act", Title: "Act", Fetch: filled, Submit: filled},
				},
				Link: said, AnonymousLink: said, Domains: []string{"contoso.com"},
			},
		}
		all, err := r.Invokes()
		if err != nil {
			t.Fatal(err)
		}
		id := "find"
		if c.name == action {
			id = "act"
		}
		a := &activity.Activity{Type: activity.Invoke, Name: c.name, Value: jsontext.Value(`{"commandId":"` + id + `","url":"https://contoso.com/1"}`)}
		bound, err := all[c.name].Bind(a)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = bound(t.Context(), nil)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s %+v: %v, want %q", c.name, c.answer, err, c.fault)
		}
	}
}

// FuzzInvokes: no value makes it panic, and what is refused is refused with a known error.
func FuzzInvokes(f *testing.F) {
	r := teams.Routes{
		Dialogs:      map[string]teams.Dialog{"a": {Fetch: fill, Submit: fill}},
		Search:       map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){"a": func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error) { return nil, nil }},
		Config:       teams.Dialog{Fetch: fill, Submit: fill},
		FeedbackForm: func(context.Context, *bot.Turn, bool) (teams.Answer, error) { return teams.Answer{}, nil },
		Suggested:    func(context.Context, *bot.Turn, teams.Input) error { return nil },
		Handoff:      func(context.Context, *bot.Turn, teams.Input) error { return nil },
		Extension: teams.Extension{
			Commands: []teams.Command{{ID: "a", Title: "A", Fetch: fill, Submit: fill}}, Link: find, AnonymousLink: find, Domains: []string{"contoso.com"},
			Settings: func(context.Context, *bot.Turn, teams.Input) (string, error) { return "", nil },
		},
	}
	all, err := r.Invokes()
	if err != nil {
		f.Fatal(err)
	}
	for _, value := range []string{`{}`, `null`, `[]`, `"x"`, `{"data":{"verb":"a"}}`, `{"data":{"verb":1}}`, `{"queryText":"","dataset":"a","queryOptions":{"top":-1}}`, `{"commandId":"a","botActivityPreview":[{"attachments":[null]}]}`, `{"url":"https://[::1"}`, `{"messagePayload":{"from":null}}`} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !jsontext.Value(value).IsValid() {
			return
		}
		for name, in := range all {
			a := &activity.Activity{Type: activity.Invoke, Name: name, Value: jsontext.Value(value)}
			if in.Same != nil {
				in.Same(a)
			}
			if _, err := in.Bind(a); err != nil && !errors.Is(err, teams.ErrValue) && !errors.Is(err, teams.ErrUnknown) {
				t.Errorf("%s of %s: %v", name, value, err)
			}
		}
	})
}
