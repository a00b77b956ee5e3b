package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/turnlog"
)

func (p *Page) chatRoutes(mux *http.ServeMux) {
	p.connector(mux)
	mux.HandleFunc("GET /dev/{$}", p.workbench)
	mux.HandleFunc("GET /dev/.json", p.workbenchJSON)
	mux.HandleFunc("GET /dev/parts/{part}", p.parts)
	post := func(name string, do func(r *http.Request) error) {
		mux.HandleFunc("POST /dev/chat/"+name, func(w http.ResponseWriter, r *http.Request) {
			err := r.ParseForm()
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				err = fmt.Errorf("what you send has more than %d MB", maxBody>>20)
			} else {
				err = do(r) // what cannot be read is missing
			}
			p.done(w, r, err)
		})
	}
	post("say", func(r *http.Request) error {
		f := r.PostFormValue
		return p.chat.say(r.Context(), said{Room: f("room"), As: f("as"), Thread: f("thread"), Text: f("text"), All: f("all") != ""})
	})
	roomChanged := func(r *http.Request, err error) error {
		if err == nil {
			p.chat.changed(r.PostFormValue("room"))
		}
		return err
	}
	post("event", func(r *http.Request) error {
		return p.chat.event(r.Context(), r.PostFormValue("room"), r.PostFormValue("as"), r.PostFormValue("event"))
	})
	post("again", func(r *http.Request) error { return p.chat.again(r.Context()) })
	post("change", func(r *http.Request) error {
		f := r.PostFormValue
		return p.chat.change(r.Context(), f("room"), f("as"), f("message"), f("change"), f("text"))
	})
	post("rate", func(r *http.Request) error {
		f := r.PostFormValue
		return p.chat.rate(r.Context(), f("room"), f("as"), f("message"), f("reaction"), f("text"))
	})
	post("person", func(r *http.Request) error { return p.chat.addPerson(r.PostFormValue("name")) })
	post("room", func(r *http.Request) error { return p.chat.addRoom(r.PostFormValue("name")) })
	post("rename", func(r *http.Request) error {
		return roomChanged(r, p.chat.renameRoom(r.PostFormValue("room"), r.PostFormValue("name")))
	})
	post("delete", func(r *http.Request) error { return roomChanged(r, p.chat.deleteRoom(r.PostFormValue("room"))) })
	post("file", func(r *http.Request) error {
		file, about, err := r.FormFile("file")
		if err != nil {
			return errors.New("choose a file of at most 4 MB")
		}
		defer func() { _ = file.Close() }() // in memory
		raw, err := io.ReadAll(file)
		if err != nil {
			return fmt.Errorf("read the file: %w", err)
		}
		f := r.PostFormValue
		return p.chat.say(r.Context(), said{Room: f("room"), As: f("as"), Text: f("text"), File: &sharedFile{Name: about.Filename, Content: raw}})
	})
	post("click", func(r *http.Request) error {
		var k click
		if !isJSON(r) {
			return errors.New("a click is JSON")
		}
		if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
			return errors.New("this is no click")
		}
		return p.chat.press(r.Context(), k)
	})
}

// done answers a request that did something: a form leads back to the page, a script reads nothing.
func (p *Page) done(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case err != nil && byForm(r):
		p.fail(w, http.StatusBadRequest, "This did not work: "+err.Error()+".")
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case byForm(r):
		http.Redirect(w, r, "/dev/?"+url.Values{"room": {r.PostFormValue("room")}, "as": {r.PostFormValue("as")}}.Encode(), http.StatusSeeOther)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// byForm reports whether a browser sends a form without the page's script.
func byForm(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// workbenchView is what the first view shows.
type workbenchView struct {
	Room     snapshot
	Rooms    []listed
	As       string
	Thread   string
	Messages []shownMessage
	Turns    []turnlog.Head
	Turn     *turnView // nil: none is open
	Examples []string
	Last     uint64 // the last event before the view was made
	Bot      string
	Names    []string // that can be mentioned
	Commands []string // such as /reset
	Draft    string
}

// shownMessage is a message as it is shown.
type shownMessage struct {
	message
	Name    string // of who speaks
	HTML    safeHTML
	Cards   []shownCard
	Files   []activity.Attachment
	AI      bool
	Sources []string
	Suggest []suggestion
	Rates   bool
	Turn    string // the turn that it belongs to
	Room    string
	As      string
	JSON    string // the activity, for scripts
}

// shownCard is a card with its texts.
type shownCard struct {
	JSON  string
	Texts string // JSON: HTML by text
	Words string // for who has no script
}

// suggestion is a suggested action.
type suggestion struct{ Title, Value string }

func (p *Page) workbench(w http.ResponseWriter, r *http.Request) {
	p.chat.look(r.URL.Query().Get("room"))
	p.show(w, "/dev/", "Chat", p.workbenchPage(p.workbenchView(r)), workbenchScripts...)
}

// workbenchJSON is the chat for programs: the conversations, and the messages of one.
func (p *Page) workbenchJSON(w http.ResponseWriter, r *http.Request) {
	type about struct {
		Key          string `json:"key"` // for the parameter room
		Name         string `json:"name"`
		Kind         string `json:"kind"`
		Conversation string `json:"conversation"`
	}
	type said struct {
		ID       string             `json:"id"`
		From     string             `json:"from"` // bot, or the key of a person
		Turn     string             `json:"turn,omitempty"`
		Note     string             `json:"note,omitempty"`
		Edited   bool               `json:"edited,omitempty"`
		Deleted  bool               `json:"deleted,omitempty"`
		Activity *activity.Activity `json:"activity"`
	}
	v := p.workbenchView(r)
	rooms, messages := []about{}, []said{}
	for _, one := range v.Rooms {
		rooms = append(rooms, about{one.Key, one.Name, one.Kind, one.ID})
	}
	for _, m := range v.Messages {
		messages = append(messages, said{m.ID, cmp.Or(m.Person, "bot"), m.Turn, m.Note, m.Edited, m.Deleted, m.Activity})
	}
	writeJSON(w, map[string]any{"version": 1, "room": v.Room.Key, "rooms": rooms, "messages": messages})
}

func (p *Page) workbenchView(r *http.Request) workbenchView {
	q := r.URL.Query()
	_, _, last, _ := p.hub.since(0)
	v := workbenchView{Turns: p.turns.Turns(), Last: last, Bot: p.cfg.Name, Examples: p.cfg.Examples[:min(3, len(p.cfg.Examples))], Thread: q.Get("thread")}
	v.Room, v.Rooms = p.chat.show(q.Get("room"))
	v.As = v.Room.People[0].Key
	if _, ok := v.Room.person(q.Get("as")); ok {
		v.As = q.Get("as")
	}
	v.Names, v.Commands = []string{p.cfg.Name}, p.of.Commands
	if v.Room.Kind != "personal" {
		for _, one := range v.Room.People {
			v.Names = append(v.Names, one.Name)
		}
		v.Draft = "@" + p.cfg.Name + " "
	}
	ofActivity := map[string]string{}
	for _, h := range v.Turns {
		if h.Outcome != turnlog.Duplicate {
			ofActivity[h.Activity] = h.ID
		}
	}
	for _, m := range v.Room.Messages {
		s := p.shown(m, v.Room)
		s.As = v.As
		if s.Turn = ofActivity[m.ID]; m.Person == "" {
			s.Turn = ofActivity[m.ReplyTo]
		}
		v.Messages = append(v.Messages, s)
	}
	if rec, ok := p.turns.Turn(q.Get("turn")); ok {
		v.Turn = p.turnView(rec, false)
	}
	return v
}

// parts are the pieces of the workbench that the script loads anew when something has changed.
func (p *Page) parts(w http.ResponseWriter, r *http.Request) {
	switch part := r.PathValue("part"); part {
	case "messages", "turns", "turn", "rooms", "alarm":
		room := r.URL.Query().Get("room")
		if room != "" && p.chat.nameOf(room) == "" { // it was deleted
			http.NotFound(w, r)
			return
		}
		if part == "messages" {
			p.chat.look(room)
		}
		v := p.workbenchView(r)
		if part == "turns" {
			v.Turns = p.filtered(r)
		}
		fragments := map[string]func() g.Node{
			"messages": v.messages,
			"turns":    func() g.Node { return p.openTurns(v) },
			"turn":     func() g.Node { return p.openTurn(v.Turn) },
			"rooms":    v.rooms,
			"alarm":    p.alarm,
		}
		p.write(w, http.StatusOK, fragments[part]())
	default:
		http.NotFound(w, r)
	}
}

// shown prepares a message for its view.
func (p *Page) shown(m message, in snapshot) shownMessage {
	s := shownMessage{message: m, Name: p.cfg.Name, Room: in.Key}
	if who, ok := in.person(m.Person); ok && m.Person != "" {
		s.Name = who.Name
	}
	a := m.Activity
	if a == nil {
		return s
	}
	text := a.Text
	for at, who := range a.Mentions() {
		text = strings.ReplaceAll(text, at, "@"+who.Name)
	}
	switch {
	case m.Person != "" || a.TextFormat == "plain":
		s.HTML = plainHTML(text)
	case text != "":
		s.HTML = toHTML(text)
	}
	for _, at := range a.Attachments {
		if at.ContentType == activity.CardContentType {
			s.Cards = append(s.Cards, newCard(at.Content))
		} else {
			s.Files = append(s.Files, at)
		}
	}
	if a.SuggestedActions != nil && m.Person == "" {
		for _, raw := range a.SuggestedActions.Actions {
			var one struct {
				Title string `json:"title"`
				Value any    `json:"value"`
			}
			if json.Unmarshal(raw, &one) == nil {
				value, isText := one.Value.(string)
				if !isText {
					value = one.Title
				}
				s.Suggest = append(s.Suggest, suggestion{one.Title, value})
			}
		}
	}
	for _, raw := range a.Entities {
		var root struct {
			Type     string   `json:"type"`
			About    []string `json:"additionalType"`
			Citation []struct {
				Appearance struct {
					Name string `json:"name"`
				} `json:"appearance"`
			} `json:"citation"`
		}
		if json.Unmarshal(raw, &root) != nil || !strings.HasSuffix(root.Type, "Message") {
			continue
		}
		s.AI = s.AI || slices.Contains(root.About, "AIGeneratedContent")
		for _, c := range root.Citation {
			s.Sources = append(s.Sources, c.Appearance.Name)
		}
	}
	s.Rates = strings.Contains(string(a.ChannelData), `"feedbackLoop`)
	if raw, err := a.Encode(); err == nil && len(raw) < maxMarkdown {
		s.JSON = string(raw)
	}
	return s
}

// newCard prepares a card: its texts become HTML here, since the script must not make any.
func newCard(raw []byte) shownCard {
	c := shownCard{JSON: string(raw), Texts: "{}"}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var card any
	if d.Decode(&card) != nil {
		c.Words = string(raw)
		return c
	}
	card = safeCard(card)
	if safe, err := json.Marshal(card); err == nil {
		c.JSON = string(safe)
	}
	texts, words := map[string]safeHTML{}, []string{}
	walk(card, func(key, text string) {
		if !slices.Contains(readable, key) {
			return
		}
		if text != "" && key != "fallbackText" && key != "placeholder" && len(words) < 1000 {
			words = append(words, text)
		}
		if _, known := texts[text]; !known && len(texts) < 1000 {
			texts[text] = toHTML(text)
		}
	})
	encoded, err := json.Marshal(texts)
	if err == nil {
		c.Texts = string(encoded)
	}
	c.Words = strings.Join(words, "\n")
	return c
}

// safeCard is JSON of a card in which pictures and media are lines that name them, so that nothing is
// loaded, and which shows hidden characters. What goes back to the bot is as it was.
func safeCard(node any) any {
	switch node := node.(type) {
	case []any:
		for i := range node {
			node[i] = safeCard(node[i])
		}
	case map[string]any:
		if node["type"] == "ImageSet" {
			node = map[string]any{"type": "Container", "items": node["images"]}
		}
		if kind := node["type"]; kind == "Image" && !embedded(node["url"]) || kind == "Media" {
			return safeCard(asLine(node))
		}
		for key, value := range node {
			text, isText := value.(string)
			switch {
			case key == "data":
			case slices.Contains([]string{"backgroundImage", "iconUrl"}, key) && !embedded(value):
				delete(node, key)
			case !isText:
				node[key] = safeCard(value)
			case key != "value" && slices.Contains(readable, key): // a value may go back
				node[key] = marked(text)
			}
		}
		return node
	}
	return node
}

// embedded reports whether a picture is in its address.
func embedded(address any) bool {
	text, _ := address.(string)
	return strings.HasPrefix(text, "data:image/")
}

// asLine is a text that stands for a picture or for media.
func asLine(node map[string]any) map[string]any {
	address, _ := node["url"].(string)
	if sources, _ := node["sources"].([]any); len(sources) > 0 {
		source, _ := sources[0].(map[string]any)
		address, _ = source["url"].(string)
	}
	what, _ := node["altText"].(string)
	if _, host := destination(address); host != "" {
		what = strings.TrimPrefix(what+", from "+host, ", ")
	}
	kind := map[any]string{"Image": "picture"}[node["type"]]
	line := map[string]any{"type": "TextBlock", "wrap": true, "text": "[" + cmp.Or(kind, "media") + ": " + what + "]"}
	if node["selectAction"] == nil {
		return line
	}
	return map[string]any{"type": "Container", "items": []any{line}, "selectAction": node["selectAction"]}
}

// readable are the names of texts in a card that people read.
var readable = []string{"text", "title", "value", "label", "placeholder", "fallbackText", "altText", "errorMessage"}

// walk calls f for each text in JSON that people read.
func walk(node any, f func(key, text string)) {
	switch node := node.(type) {
	case []any:
		for _, one := range node {
			walk(one, f)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if text, ok := node[key].(string); ok {
				f(key, text)
			} else if key != "data" && key != "selectAction" {
				walk(node[key], f)
			}
		}
	}
}

// ThreadReply reports whether the message is in a thread that another one began.
func (s shownMessage) ThreadReply() bool { return s.Thread != "" && s.Thread != s.ID }
