package teams_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bottest"
)

func init() {
	for kind, route := range map[string]func(*making, string, *handler){
		"feedback":      feedbackRoute,
		"feedback.form": func(m *making, _ string, h *handler) { m.cfg.Feedback, m.cfg.Teams.FeedbackForm = true, h.form },
		"suggested.submit": func(m *making, _ string, h *handler) {
			m.cfg.Teams.Suggested = func(ctx context.Context, t *bot.Turn, in teams.Input) error {
				return h.tell(ctx, t, map[string]any{"data": in.Data, "value": in.Data, "message": t.Activity.ReplyToID})
			}
		},
		"dialog.fetch": func(m *making, verb string, h *handler) {
			m.dialog(verb, func(d *teams.Dialog) { d.Fetch = h.fills })
		},
		"dialog.submit": func(m *making, verb string, h *handler) {
			m.dialog(verb, func(d *teams.Dialog) { d.Submit = h.fills })
		},
		"card":              cardRouteOf,
		"search":            searchRoute,
		"me.query":          queryRoute,
		"me.fetch":          func(m *making, id string, h *handler) { m.action(id, func(c *teams.Command) { c.Fetch = h.fills }) },
		"me.submit":         func(m *making, id string, h *handler) { m.action(id, func(c *teams.Command) { c.Submit = h.fills }) },
		"me.send":           sendRoute,
		"me.select":         selectRoute,
		"me.link":           linkRoute,
		"me.anonymous":      linkRoute,
		"config.fetch":      func(m *making, _ string, h *handler) { m.cfg.Teams.Config.Fetch = h.fills },
		"config.submit":     func(m *making, _ string, h *handler) { m.cfg.Teams.Config.Submit = h.fills },
		"handoff":           handoffRoute,
		"me.setting":        func(m *making, _ string, h *handler) { m.command("none"); m.cfg.Teams.Extension.Saved = h.given },
		"me.button.clicked": func(m *making, _ string, h *handler) { m.command("none"); m.cfg.Teams.Extension.Clicked = h.given },
	} {
		routers[kind] = route
	}
	preparers["continuations"] = continuations
	preparers["records"] = func(*played, *bottest.Kit, given, json.RawMessage) {} // the preview says which one it is
}

// hasToken says whether the person of the turn has a token of that connection.
var hasToken = func(context.Context, *bot.Turn, string) (bool, error) { return false, nil }

// of is the handler for the person of the turn.
func (h *handler) of(t *bot.Turn) *handler {
	one := h.By[t.Activity.From.ID]
	if one == nil {
		one = h.By["*"]
	}
	if one == nil {
		return h
	}
	whole := *one
	whole.name, whole.p = h.name, h.p
	return &whole
}

// starts notes the call, and asks the person to sign in if the handler needs that.
func (h *handler) starts(ctx context.Context, t *bot.Turn, given map[string]any) error {
	given["person"] = t.Activity.From.ID
	if err := h.called(ctx, given); err != nil || h.NeedsToken == "" {
		return err
	}
	has, err := hasToken(ctx, t, h.NeedsToken)
	if err == nil && !has {
		err = &teams.SignIn{Connection: h.NeedsToken}
	}
	return err
}

// tell is a handler that may say something.
func (h *handler) tell(ctx context.Context, t *bot.Turn, given map[string]any) error {
	if err := h.starts(ctx, t, given); err != nil {
		return err
	}
	if h.Post != nil {
		m := t.Message("")
		m.Attachments = []activity.Attachment{{ContentType: activity.CardContentType, Content: jsontext.Value(h.Post)}}
		return t.Send(ctx, m)
	}
	if h.Text == "" {
		return nil
	}
	return t.Send(ctx, t.Message(h.Text))
}

// answer is what the handler shows.
func (h *handler) answer() (a teams.Answer) {
	a.Message, a.NoCache = h.Message, h.NoCache
	if d := h.Dialog; d != nil {
		a.Form = &teams.Form{Title: d.Title, Height: size(d.Height), Width: size(d.Width), URL: d.URL}
		if d.Card != nil {
			a.Form.Card = d.Card
		}
	}
	for _, i := range h.Items {
		a.Items = append(a.Items, i.item())
	}
	if h.Preview != nil {
		a.Preview = h.Preview
	}
	return a
}

func size(of any) string {
	if of == nil {
		return ""
	}
	return fmt.Sprint(of)
}

func (i item) item() (out teams.Item) {
	var look struct{ Title, Text, Image string }
	_ = json.Unmarshal(i.Preview, &look) // without one there is none
	out = teams.Item{Card: i.Card, Title: look.Title, Text: look.Text, Image: look.Image}
	if i.Tap != nil {
		out.Tap = i.Tap
	}
	return out
}

// input is what a handler was given with a form.
func input(in teams.Input) map[string]any {
	given := map[string]any{"data": in.Data, "value": in.Data, "theme": in.Theme, "command": in.Command, "context": in.Context, "state": in.State}
	if in.Preview != nil {
		given["preview"] = in.Preview
	}
	if m := in.Message; m != nil {
		given["message"] = map[string]any{"id": m.ID, "html": m.HTML, "user": m.UserID, "name": m.User, "link": m.Link}
	}
	return given
}

// fills is a handler of a form.
func (h *handler) fills(ctx context.Context, t *bot.Turn, in teams.Input) (teams.Answer, error) {
	one := h.of(t)
	if t.ReadOnly() {
		return one.answer(), one.starts(ctx, t, input(in))
	}
	return one.answer(), one.tell(ctx, t, input(in))
}

// given is a handler that answers nothing.
func (h *handler) given(ctx context.Context, t *bot.Turn, in teams.Input) error {
	return h.tell(ctx, t, input(in))
}

func (h *handler) form(ctx context.Context, t *bot.Turn, liked bool) (teams.Answer, error) {
	return h.answer(), h.starts(ctx, t, map[string]any{"liked": liked, "message": t.Activity.ReplyToID})
}

// asked is what a handler was asked for.
func asked(q teams.Query) map[string]any {
	return map[string]any{
		"parameters": q.Parameters, "skip": q.Skip, "count": q.Count, "initial": q.Initial, "text": q.Text, "query": q.Text, "url": q.Text,
		"dataset": q.Name, "command": q.Name, "data": q.Data, "state": q.State, "top": q.Count,
	}
}

func (h *handler) finds(ctx context.Context, t *bot.Turn, q teams.Query) (teams.Answer, error) {
	return h.of(t).answer(), h.starts(ctx, t, asked(q))
}

// dialog changes the dialog with that verb.
func (m *making) dialog(verb string, change func(*teams.Dialog)) {
	if m.cfg.Teams.Dialogs == nil {
		m.cfg.Teams.Dialogs = map[string]teams.Dialog{}
	}
	d := m.cfg.Teams.Dialogs[verb]
	change(&d)
	m.cfg.Teams.Dialogs[verb] = d
}

// command is the command with that id, which is made if it is missing.
func (m *making) command(id string) *teams.Command {
	all := &m.cfg.Teams.Extension.Commands
	at := slices.IndexFunc(*all, func(c teams.Command) bool { return c.ID == id })
	if at < 0 {
		at = len(*all)
		*all = append(*all, teams.Command{
			ID: cmp.Or(id, "none"), Title: cmp.Or(id, "none"), Parameters: []teams.Parameter{{Name: "q", Title: "Q"}},
			Submit: func(context.Context, *bot.Turn, teams.Input) (teams.Answer, error) { return teams.Answer{}, nil },
		})
	}
	return &(*all)[at]
}

func (m *making) action(id string, change func(*teams.Command)) { change(m.command(id)) }

func feedbackRoute(m *making, _ string, h *handler) {
	m.cfg.Feedback = true
	m.on = append(m.on, func(b *bot.Bot) {
		b.OnFeedback(func(ctx context.Context, t *bot.Turn, f bot.Feedback) error {
			given := map[string]any{"liked": f.Liked, "text": f.Text, "message": f.MessageID}
			if f.Form != nil {
				given["form"] = f.Form
			}
			return h.tell(ctx, t, given)
		})
	})
}

// cardRouteOf answers clicks, and asks for a person's view of the card, as it may have no effects.
func cardRouteOf(m *making, verb string, h *handler) {
	m.on = append(m.on, func(b *bot.Bot) {
		handle := func(ctx context.Context, t *bot.Turn, c bot.CardClick) (bot.CardAnswer, error) {
			one := h.of(t)
			a := bot.CardAnswer{Message: one.Message}
			if one.Card != nil {
				var card struct {
					Version string `json:"version"`
					Body    []any  `json:"body"`
					Actions []any  `json:"actions"`
				}
				if err := json.Unmarshal(one.Card, &card); err != nil {
					return a, err
				}
				a.Card = &activity.Card{Fallback: "a card", Version: card.Version, Body: card.Body, Actions: card.Actions}
			}
			given := map[string]any{"data": c.Data, "verb": c.Verb, "trigger": c.Trigger}
			if t.ReadOnly() {
				return a, one.starts(ctx, t, given)
			}
			return a, one.tell(ctx, t, given)
		}
		if h.By != nil {
			b.OnCardRefresh(verb, handle)
			return
		}
		b.OnCardAction(verb, handle)
	})
}

func searchRoute(m *making, set string, h *handler) {
	if m.cfg.Teams.Search == nil {
		m.cfg.Teams.Search = map[string]func(context.Context, *bot.Turn, teams.Query) ([]teams.Choice, error){}
	}
	m.cfg.Teams.Search[set] = func(ctx context.Context, t *bot.Turn, q teams.Query) (found []teams.Choice, err error) {
		for _, r := range h.Results {
			found = append(found, teams.Choice{Title: r.Title, Value: r.Value})
		}
		return found, h.starts(ctx, t, asked(q))
	}
}

func queryRoute(m *making, id string, h *handler) {
	m.action(id, func(c *teams.Command) { c.Query, c.Submit, c.Initial = h.finds, nil, true })
}

func sendRoute(m *making, id string, h *handler) {
	m.action(id, func(c *teams.Command) { c.Send = h.given })
}

func selectRoute(m *making, _ string, h *handler) {
	m.command("none")
	m.cfg.Teams.Extension.Select = func(ctx context.Context, t *bot.Turn, in teams.Input) (i teams.Item, err error) {
		if a := h.answer(); len(a.Items) > 0 {
			i = a.Items[0]
		}
		return i, h.starts(ctx, t, input(in))
	}
}

// linkRoute answers links of anybody.
func linkRoute(m *making, _ string, h *handler) {
	m.command("none")
	e := &m.cfg.Teams.Extension
	e.Domains = []string{"*.contoso.com"}
	if strings.HasSuffix(h.name, "anonymous") {
		e.AnonymousLink = h.finds
	} else {
		e.Link = h.finds
	}
}

// continues is what a person says to go on elsewhere.
const continues = "/continue"

// handoffRoute also keeps what preparers ask for.
func handoffRoute(m *making, _ string, h *handler) {
	m.cfg.Teams.Handoff = h.given
	m.on = append(m.on, func(b *bot.Bot) {
		b.OnCommand(continues, func(ctx context.Context, t *bot.Turn) error {
			id, err := teams.Continue(t, t.Text)
			m.p.mu.Lock()
			defer m.p.mu.Unlock()
			m.p.stands[t.Text] = id
			return err
		})
	})
}

// continuations has people say that they go on elsewhere, the oldest first.
func continuations(p *played, kit *bottest.Kit, _ given, state json.RawMessage) {
	var all map[string]struct {
		Person string `json:"person"`
		Age    int    `json:"age_ms"`
		Used   bool   `json:"used"`
	}
	_ = json.Unmarshal(state, &all) // it is of that form
	ids := make([]string, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(all[b].Age, all[a].Age) })
	for i, id := range ids {
		one := all[id]
		name := strings.TrimPrefix(one.Person, "29:")
		base := map[string]any{
			"channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/", "recipient": map[string]any{"id": "28:bot", "name": "Planbot"},
			"from":         map[string]any{"id": one.Person, "aadObjectId": "00000000-0000-0000-0000-00000000000" + name[:1]},
			"conversation": map[string]any{"conversationType": "personal", "tenantId": "t-1", "id": "a:" + name},
			"channelData":  map[string]any{"tenant": map[string]any{"id": "t-1"}},
		}
		say := map[string]any{"type": "message", "id": "before-" + id, "text": continues + " " + id}
		for member, value := range base {
			say[member] = value
		}
		post(kit, say)
		kit.Settle()
		if one.Used {
			p.mu.Lock()
			use := map[string]any{"type": "invoke", "name": "handoff/action", "id": "used-" + id, "value": map[string]any{"continuation": p.stands[id]}}
			p.mu.Unlock()
			for member, value := range base {
				use[member] = value
			}
			post(kit, use)
			kit.Settle()
		}
		after := 0
		if i+1 < len(ids) {
			after = all[ids[i+1]].Age
		}
		time.Sleep(ms(one.Age - after))
	}
}
