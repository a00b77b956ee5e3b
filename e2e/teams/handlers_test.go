package teams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// making is a bot that is being made for a case.
type making struct {
	p     *played
	given given
	cfg   *bot.Config
	on    []func(b *bot.Bot) // what to register once it is made
}

// routers make a route of a handler of the case, by the handler's name before the colon. What is
// behind the colon is the word, verb, command or data set.
var routers = map[string]func(m *making, word string, h *handler){
	"text": textRoute,

	"attachment":    attachmentRoute,
	"meeting.start": meetingRoute(false),
	"meeting.end":   meetingRoute(true),
	"meeting.join":  peopleRoute(joined),
	"meeting.leave": peopleRoute(left),
	"read_receipt":  receiptRoute,
}

// preparers make what was there before, by the name of that part of the state. They lead the bot to it
// as people would, and put ids of the case that stand for the bot's own into played.stands.
var preparers = map[string]func(p *played, kit *bottest.Kit, g given, state json.RawMessage){
	"files": offerFiles,
}

// looks see what is left when a case is over.
var looks []func(p *played, e expect)

// needsToken is the option of an action that needs a token of that connection.
var needsToken func(connection string) actions.Option

// handler is what a route does. Its answer is abstract: each route says it in its own form.
type handler struct {
	name string // whole
	p    *played

	Note, Forbidden bool // it is only noted that it was called; it must not be called

	Text          string              `json:"text"` // a message
	TakesMS       int                 `json:"takes_ms"`
	NeedsToken    string              `json:"needs_token"`
	Dialog        *dialog             `json:"dialog"`
	Close         bool                `json:"close"`
	Message       string              `json:"message"` // in the dialog
	Items         []item              `json:"items"`
	NoCache       bool                `json:"no_cache"`
	Preview       json.RawMessage     `json:"preview"` // a card
	Post          json.RawMessage     `json:"post"`    // a card
	Card          json.RawMessage     `json:"card"`
	Results       []result            `json:"results"`
	By            map[string]*handler `json:"by"` // person, * for others
	Suggestions   []json.RawMessage   `json:"suggestions"`
	Citations     []citation          `json:"citations"`
	Sensitivity   *sensitivity        `json:"sensitivity"`
	Attachments   []json.RawMessage   `json:"attachments"`
	AI            bool                `json:"ai"`
	React         string              `json:"react"`
	Unreact       string              `json:"unreact"`
	NotifyMeeting *struct {
		Recipients []string `json:"recipients"`
		URL        string   `json:"url"`
	} `json:"notify_meeting"`
	MeetingInfo bool   `json:"meeting_info"`
	Download    bool   `json:"download"`
	ThenUpdate  string `json:"then_update"` // the text of its message is changed to
}

type dialog struct {
	Title  string          `json:"title"`
	Height any             `json:"height"` // small, medium, large or pixels
	Width  any             `json:"width"`
	Card   json.RawMessage `json:"card"`
	URL    string          `json:"url"`
}

type item struct {
	Card    json.RawMessage `json:"card"`
	Preview json.RawMessage `json:"preview"` // title, text, image
	Tap     json.RawMessage `json:"tap"`
}

type result struct{ Title, Value string }

type citation struct {
	Position             int
	Title, URL, Abstract string
	Keywords             []string
	Sensitivity, Label   *sensitivity // of the source
}

type sensitivity struct {
	ID, Name, Description string
	Level                 int
}

// label is the label as a bot sets it; that of nil is none.
func (s *sensitivity) label() activity.Sensitivity {
	if s == nil {
		return activity.Sensitivity{}
	}
	return activity.Sensitivity(*s)
}

func (h *handler) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case `"note"`:
		h.Note = true
		return nil
	case `"forbidden"`:
		h.Forbidden = true
		return nil
	}
	type plain handler // has no UnmarshalJSON
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(h))
}

// called notes a call of the handler with what it was given, and takes the time that it takes.
func (h *handler) called(ctx context.Context, given map[string]any) error {
	h.p.mu.Lock()
	seen := map[string]any{"handler": h.name}
	raw, _ := json.Marshal(given)  // as JSON has it
	_ = json.Unmarshal(raw, &seen) // it is an object
	h.p.handled = append(h.p.handled, seen)
	if h.Forbidden {
		h.p.faults = append(h.p.faults, h.name+" was called")
	}
	h.p.mu.Unlock()
	select {
	case <-time.After(ms(h.TakesMS)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// textRoute answers a message that is the word.
func textRoute(m *making, word string, h *handler) {
	m.on = append(m.on, func(b *bot.Bot) {
		b.OnCommand(word, func(ctx context.Context, t *bot.Turn) error {
			h.p.quoted(t.Activity)
			if err := h.called(ctx, map[string]any{}); err != nil || h.Note {
				return err
			}
			text, err := h.inMeeting(ctx, t)
			if err != nil {
				return err
			}
			filled := *h
			filled.Text = text
			return filled.says(ctx, t, m.given)
		})
	})
}
