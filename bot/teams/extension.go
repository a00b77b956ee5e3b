package teams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

// Extension is the bot's message extension: what people find and do from where they write a message.
// Select, Link, AnonymousLink and Settings are read-only. Teams calls it also in chats that the bot
// is not in; there it cannot send.
type Extension struct {
	// Commands are what people choose from. Teams wants at least one, also if only links matter.
	Commands []Command
	// Select gets the Tap of the [Item] that a person chose, and returns the one to insert.
	Select func(ctx context.Context, t *turn.Turn, in Input) (Item, error)
	// Link returns the card for a link of Domains that a person writes; its address is the query's
	// Text. Without Items, the link stays a link, as does one of another host.
	Link func(ctx context.Context, t *turn.Turn, q Query) (Answer, error)
	// AnonymousLink is Link for people who do not have the app. Teams hides who they are, so it skips
	// the bot's access list and has no state: answer with what everybody may see. nil: such links
	// stay links.
	AnonymousLink func(ctx context.Context, t *turn.Turn, q Query) (Answer, error)
	// Domains are hosts, such as tickets.contoso.com or *.contoso.com, where * is one label.
	Domains []string
	// Settings returns the https address of the page with the settings of the message extension.
	// Saved gets what that page handed back, as State; the invoke is answered before it runs.
	Settings func(ctx context.Context, t *turn.Turn, in Input) (page string, err error)
	Saved    func(ctx context.Context, t *turn.Turn, in Input) error
	// Clicked gets the value of a button of a card that the extension inserted, unless that is an
	// Action.Execute; the invoke is answered before it runs. nil: nothing happens.
	Clicked func(ctx context.Context, t *turn.Turn, in Input) error
}

// Command is a search or an action of the message extension. A search has a Query. An action has a
// Fetch, which is read-only and returns its form, or Parameters that Teams asks for; and a Submit.
type Command struct {
	ID, Title, Description string
	// Parameters are what people fill in before Query or Submit is called, at most 5. A search has
	// at least one.
	Parameters []Parameter
	// Contexts are where the command is offered: compose, commandBox and message. nil: compose and
	// commandBox.
	Contexts []string
	// Initial calls Query when the command opens, with the query's Initial.
	Initial bool

	// Query is read-only. It is called whenever the person pauses in typing.
	Query func(ctx context.Context, t *turn.Turn, q Query) (Answer, error)

	Fetch func(ctx context.Context, t *turn.Turn, in Input) (Answer, error)
	// Submit gets what the person filled in. Its answer is the next form, a message, an Item for the
	// person's message, a Preview, or nothing. If the person wants to change a Preview, Fetch is
	// called again, with the preview.
	Submit func(ctx context.Context, t *turn.Turn, in Input) (Answer, error)
	// Send posts what the person saw as a Preview, with [turn.Turn.Show] or [turn.Turn.Send]. The same
	// preview is sent once.
	Send func(ctx context.Context, t *turn.Turn, in Input) error
}

// Parameter is what a person fills in for a command.
type Parameter struct {
	Name, Title, Description string
	// Type is text, textarea, number, date, time, toggle or choiceset. "": text.
	Type string
	// Choices are those of a choiceset, at most 10.
	Choices []Choice
	Value   string // what it begins with
}

// Limits of a manifest.
const (
	maxID, maxTitle, maxDescription         = 64, 32, 128
	maxCommands, maxParameters, maxOptions  = 10, 5, 10
	maxDomains                              = 500
	fetchTask, submitAction, selectInvoke   = "composeExtension/fetchTask", "composeExtension/submitAction", "composeExtension/selectItem"
	queryInvoke, linkInvoke, strangersLinks = "composeExtension/query", "composeExtension/queryLink", "composeExtension/anonymousQueryLink"
)

var (
	domain     = regexp.MustCompile(`^(\*\.)?([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
	inputTypes = []string{"", "text", "textarea", "number", "date", "time", "toggle", "choiceset"}
	contexts   = []string{"compose", "commandBox", "message"}
)

// check lists what Teams would refuse.
func (e *Extension) check() error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(e.Commands) > maxCommands {
		refuse("the extension has %d commands, Teams takes %d", len(e.Commands), maxCommands)
	}
	links := e.Link != nil || e.AnonymousLink != nil
	if links != (len(e.Domains) > 0) || len(e.Domains) > maxDomains {
		refuse("the extension needs Domains for Link and AnonymousLink, and them for Domains, at most %d", maxDomains)
	}
	if len(e.Commands) == 0 && (links || e.Select != nil || e.Settings != nil || e.Clicked != nil) {
		refuse("the extension has no command; Teams wants one, also if only links matter")
	}
	for _, d := range e.Domains {
		if !domain.MatchString(d) {
			refuse("the extension's domain %.100q is no host", d)
		}
	}
	known := map[string]bool{}
	for _, c := range e.Commands {
		about := fmt.Sprintf("the command %.80q", c.ID)
		switch action := c.Fetch != nil || c.Submit != nil || c.Send != nil; {
		case action == (c.Query != nil):
			refuse("%s is either a search, with Query, or an action, with Submit", about)
		case action && c.Submit == nil:
			refuse("%s has no Submit", about)
		case action && c.Fetch == nil && len(c.Parameters) == 0:
			refuse("%s has neither Fetch nor Parameters", about)
		case !action && len(c.Parameters) == 0:
			refuse("%s has no Parameters", about)
		}
		if known[c.ID] {
			refuse("%s is there twice", about)
		}
		known[c.ID] = true
		faults = append(faults, named(about, c.ID, c.Title, c.Description)...)
		if len(c.Parameters) > maxParameters {
			refuse("%s has %d parameters, Teams takes %d", about, len(c.Parameters), maxParameters)
		}
		for _, p := range c.Parameters {
			about := fmt.Sprintf("the parameter %.80q of %s", p.Name, about)
			faults = append(faults, named(about, p.Name, p.Title, p.Description)...)
			if !slices.Contains(inputTypes, p.Type) {
				refuse("%s has the Type %.40q; it is one of %s", about, p.Type, strings.Join(inputTypes[1:], ", "))
			}
			if (p.Type == "choiceset") != (len(p.Choices) > 0) || len(p.Choices) > maxOptions {
				refuse("%s has %d Choices; a choiceset has 1 to %d, others none", about, len(p.Choices), maxOptions)
			}
		}
		for _, in := range c.Contexts {
			if !slices.Contains(contexts, in) {
				refuse("%s has the Context %.40q; it is one of %s", about, in, strings.Join(contexts, ", "))
			}
		}
	}
	return errors.Join(faults...)
}

// named checks the texts of a command or a parameter.
func named(about, id, title, description string) (faults []error) {
	for _, text := range []struct {
		name, value string
		most        int
		required    bool
	}{{"id", id, maxID, true}, {"title", title, maxTitle, true}, {"description", description, maxDescription, false}} {
		if n := len([]rune(text.value)); n > text.most || n == 0 && text.required {
			faults = append(faults, fmt.Errorf("%s has a %s of %d characters, Teams takes 1 to %d", about, text.name, n, text.most))
		}
	}
	return faults
}

// invokes adds how the extension's invokes are answered.
func (e *Extension) invokes(all map[string]Invoke) {
	if len(e.Commands) > 0 {
		all[queryInvoke] = Invoke{Mode: Aside, Bind: e.query, Say: composeMessage, SignIn: composeSignIn, Button: true}
		all[fetchTask] = Invoke{Mode: Aside, Continues: true, Bind: e.fetch, Say: taskMessage, SignIn: composeSignIn, Same: equal, Button: true}
		all[submitAction] = Invoke{Bind: e.submit, Say: taskMessage, SignIn: composeSignIn, Same: samePreview, Button: true}
		all["composeExtension/onCardButtonClicked"] = e.clicked()
	}
	if e.Select != nil {
		all[selectInvoke] = Invoke{Mode: Aside, Bind: e.choose, Say: composeMessage, SignIn: composeSignIn}
	}
	if e.Link != nil {
		all[linkInvoke] = Invoke{Mode: Aside, Bind: link(e.Link, e.Domains, shape{one: true, listed: true, preview: true}), Say: noResult, SignIn: composeSignIn}
	}
	if e.AnonymousLink != nil {
		all[strangersLinks] = Invoke{
			Mode: Aside, Anonymous: true, Bind: link(e.AnonymousLink, e.Domains, shape{one: true, listed: true, preview: true, anonymous: true}), Say: noResult, SignIn: composeSignIn,
		}
	}
	if e.Settings != nil {
		all["composeExtension/querySettingUrl"] = Invoke{Mode: Aside, Bind: e.settings, Say: composeMessage, SignIn: composeSignIn}
	}
	if e.Saved != nil {
		all["composeExtension/setting"] = Invoke{Mode: Acknowledged, Bind: func(a *activity.Activity) (Bound, error) {
			in, err := readInput(a)
			return bindEmpty(e.Saved, in, err)
		}}
	}
}

// command returns the command with that id, or the zero Command.
func (e *Extension) command(id string) Command {
	if at := slices.IndexFunc(e.Commands, func(c Command) bool { return c.ID == id }); at >= 0 {
		return e.Commands[at]
	}
	return Command{}
}

func (e *Extension) query(a *activity.Activity) (Bound, error) {
	var value struct {
		ID         string `json:"commandId"`
		Parameters []struct {
			Name  string         `json:"name"`
			Value jsontext.Value `json:"value"`
		} `json:"parameters"`
		Options struct {
			Skip  int `json:"skip"`
			Count int `json:"count"`
		} `json:"queryOptions"`
		State          string         `json:"state"`
		Authentication jsontext.Value `json:"authentication"`
	}
	if err := read(a, &value); err != nil {
		return nil, err
	}
	const usual = 25
	q := Query{
		Name: value.ID, Skip: value.Options.Skip, Count: min(value.Options.Count, maxResults), State: value.State,
		Authentication: value.Authentication, Parameters: map[string]string{},
	}
	switch {
	case q.Name == "":
		return nil, wrong("has no commandId")
	case q.Skip < 0 || q.Count < 0:
		return nil, wrong("asks for a negative number of results")
	case q.Count == 0:
		q.Count = usual
	}
	for _, p := range value.Parameters {
		text := string(p.Value)
		if p.Value.Kind() == '"' && json.Unmarshal(p.Value, &text) != nil {
			return nil, wrong("has a parameter that is no text")
		}
		if p.Name == "initialRun" {
			q.Initial = text == "true"
			continue
		}
		q.Parameters[p.Name] = text
	}
	if len(value.Parameters) > 0 && !q.Initial {
		q.Text = q.Parameters[value.Parameters[0].Name]
	}
	h := e.command(q.Name).Query
	if h == nil {
		return nil, ErrUnknown
	}
	return bind(func(ctx context.Context, t *turn.Turn, q Query) (Answer, error) {
		out, err := h(ctx, t, q)
		out.Items = atMost(t, out.Items, q.Count)
		return out, err
	}, q, shape{listed: true}.results, nil)
}

// atMost returns the first of what was found. The log, and so the test kit, says if there was more.
func atMost[T any](t *turn.Turn, found []T, most int) []T {
	if len(found) <= most {
		return found
	}
	t.Log().Warn().Str("unshown", fmt.Sprintf("%d results: Teams asked for %d", len(found), most)).Msg("Teams will not show all of what was found")
	return found[:most]
}

func (e *Extension) choose(a *activity.Activity) (Bound, error) {
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		return nil, wrong("is missing")
	}
	h := func(ctx context.Context, t *turn.Turn, in Input) (Answer, error) {
		item, err := e.Select(ctx, t, in)
		return Answer{Items: []Item{item}}, err
	}
	return bind(h, Input{Data: a.Value}, shape{one: true}.results, nil)
}

func (e *Extension) fetch(a *activity.Activity) (Bound, error) {
	in, err := readAction(a)
	return bindForm(e.command(in.Command).Fetch, in, fetchBody, originOf(a, in.Command), err)
}

func readAction(a *activity.Activity) (in Input, err error) {
	if in, err = readInput(a); err == nil && in.Command == "" {
		err = wrong("has no commandId")
	}
	return in, err
}

// previewAction says what a person wants with a preview: edit, send or nothing.
func previewAction(a *activity.Activity) string {
	var value struct {
		Action string `json:"botMessagePreviewAction"`
	}
	if json.Unmarshal(a.Value, &value) != nil {
		return "of another form"
	}
	return value.Action
}

// samePreview is equal, but for a preview that is sent.
func samePreview(a *activity.Activity) (string, bool) {
	id, _ := equal(a)
	return id, previewAction(a) == "send"
}

func (e *Extension) submit(a *activity.Activity) (Bound, error) {
	in, err := readAction(a)
	c := e.command(in.Command)
	switch action := previewAction(a); {
	case err != nil:
		return nil, err
	case action == "edit":
		return bindForm(c.Fetch, in, fetchBody, originOf(a, in.Command), nil)
	case action == "send":
		return bindSend(c.Send, in)
	case action != "":
		return nil, wrong("has the botMessagePreviewAction %.20q", action)
	}
	return bindForm(c.Submit, in, actionBody, originOf(a, in.Command), nil)
}

// bindSend is bindEmpty for a handler that people wait for.
func bindSend(h func(context.Context, *turn.Turn, Input) error, in Input) (Bound, error) {
	if h == nil {
		return nil, ErrUnknown
	}
	return func(ctx context.Context, t *turn.Turn) (any, Late, error) {
		return nil, Late{tells: true}, h(ctx, t, in)
	}, nil
}

// link binds an invoke about a link.
func link(h func(context.Context, *turn.Turn, Query) (Answer, error), domains []string, s shape) func(*activity.Activity) (Bound, error) {
	return func(a *activity.Activity) (Bound, error) {
		var value struct {
			URL            string         `json:"url"`
			State          string         `json:"state"`
			Authentication jsontext.Value `json:"authentication"`
		}
		err := read(a, &value)
		if err == nil && !isWeb(value.URL, "https", "http") {
			err = wrong("has no url of a page")
		}
		if err == nil && h != nil && !inDomains(value.URL, domains) {
			return bind(unlinked, Query{}, s.results, nil)
		}
		return bind(tellUnshown(h), Query{Text: value.URL, State: value.State, Authentication: value.Authentication}, s.results, err)
	}
}

// tellUnshown logs, and so fails in the test kit, a preview of a link that Teams will not show. The card still goes
// out as its author wrote it: nobody else knows what an older version would lose.
func tellUnshown(h func(context.Context, *turn.Turn, Query) (Answer, error)) func(context.Context, *turn.Turn, Query) (Answer, error) {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, t *turn.Turn, q Query) (Answer, error) {
		out, err := h(ctx, t, q)
		for _, item := range out.Items {
			card, bad := cardOf(item.Card, newestPreview)
			if bad != nil || card.Type != activity.CardContentType {
				continue // an error is told where the answer is written
			}
			if err := checkVersion(card.Content, newestPreview); err != nil {
				zerolog.Ctx(ctx).Warn().Str("unshown", err.Error()).Msg("Teams will not show the preview of a link")
			}
		}
		return out, err
	}
}

// unlinked leaves a link a link.
func unlinked(context.Context, *turn.Turn, Query) (Answer, error) { return Answer{}, nil }

// inDomains reports whether the host of an address is one of the domains. Clients send others too.
func inDomains(address string, domains []string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	_, parent, _ := strings.Cut(u.Hostname(), ".")
	return slices.ContainsFunc(domains, func(d string) bool {
		return strings.EqualFold(d, u.Hostname()) || strings.EqualFold(d, "*."+parent)
	})
}

// settings binds composeExtension/querySettingUrl.
func (e *Extension) settings(a *activity.Activity) (Bound, error) {
	h := func(ctx context.Context, t *turn.Turn, in Input) (Answer, error) {
		page, err := e.Settings(ctx, t, in)
		return Answer{Settings: page}, err
	}
	in, err := readInput(a)
	return bind(h, in, func(a Answer) (any, error) { return settingsBody(a.Settings) }, err)
}

// clicked answers a button of an inserted card. Without a handler there is nothing to keep.
func (e *Extension) clicked() Invoke {
	if e.Clicked == nil {
		return Invoke{Mode: Aside, Anonymous: true, Bind: func(*activity.Activity) (Bound, error) {
			return func(context.Context, *turn.Turn) (any, Late, error) { return nil, Late{}, nil }, nil
		}}
	}
	return Invoke{Mode: Acknowledged, Bind: func(a *activity.Activity) (Bound, error) {
		return bindEmpty(e.Clicked, Input{Data: a.Value}, nil)
	}}
}
