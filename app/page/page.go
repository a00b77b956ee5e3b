// Package page serves a page at /dev/ where the author of a bot talks to it and sees everything
// about each turn: what came in, what the model was asked and answered, what ran and what was sent.
//
// The page is for local mode only. It is a channel like any other: its server posts to the bot's
// webhook and is the connector that the bot replies to, so what works there works in Teams.
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/markup"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state/inbox"
)

// config says what the page shows. Name is required.
type config struct {
	Name     string   // of the bot
	Examples []string // what people may say to it
	Secrets  []string // that the page must never show
	// Secret is in the address to which the bot sends. It must stay the same where state outlives the
	// process, since what waits there goes to that address. "": a random one.
	Secret string
	// Keep is a folder where the chat and the turns are kept for the next process; see also
	// [BuildFault]. "": they end with the process.
	Keep string
	Log  zerolog.Logger
	// Counter counts the tokens of what it shows. nil: [prompts.Tokens].
	Counter prompts.Counter
}

// parts are what the views read and what they act on. A view of a nil part says that there is nothing.
type parts struct {
	Bot *bot.Bot
	// Inbox has the dead letters and waiting turns. nil: nothing shows them, and Dead and Export
	// may also be nil.
	Inbox *inbox.Inbox
	// Dead returns what is known about a dead letter: names and values for people, and a value for
	// JSON. Export turns one into a scenario.
	Dead   func(inbox.Waiting) (rows [][2]string, asJSON any)
	Export func(inbox.Waiting) ([]byte, error)
	// Metrics are the operators' metrics. nil: nothing shows them.
	Metrics prometheus.Gatherer
	// Crash ends the process at once. nil: the state would be lost with it.
	Crash func()

	// Services returns the actions of the bot's services as they are now.
	Services func() []*actions.Action
	// Policy is the bot's, and Approvers says in words who approves. nil: the actions' own marks count.
	Policy    actions.Policy
	Approvers string
	// UserToken is that of [actions.Turn], for the person of an activity.
	UserToken func(ctx context.Context, of activity.Reference, connection string) (connector.UserToken, error)

	// Prompts has the bot's own prompts, a folder each, and Prompt is the name of the planner's one.
	Prompts fs.FS
	Prompt  string
	// Preview returns what a model would be asked in a turn with the named prompt, if the bot had
	// the prompts in the folder "prompts" of own. It asks no model.
	Preview func(ctx context.Context, turn *actions.Turn, own fs.FS, name string) (*planner.Asked, error)
	// WritePrompt writes a file of the bot's own prompts, which the bot reads again. nil: it reads none again.
	WritePrompt func(name, text string) error

	// Skills says where the bot looks for skills. Sandbox runs their scripts, and Scripts says so in words.
	Skills  skills.Config
	Sandbox skills.Sandbox
	Scripts string

	// Settings are the bot's. Doctor checks them, which takes a while and may cost a model call.
	Settings []setting
	Doctor   func(ctx context.Context) ([]app.Check, error)

	// Commands are what the message box completes, such as /reset.
	Commands []string
	// Evals is the folder with the reports of bottest eval.
	Evals string

	// WhatIf makes the planner of a what-if. Nothing that it plans runs. nil: there are no
	// what-ifs.
	WhatIf func(ctx context.Context, c variation) (trial, error)
	// Recording says what tests made from turns have to know about the bot. Scenarios is the folder
	// where they are saved. "": they can only be downloaded.
	Recording record.Config
	Scenarios string
}

// server is the page and what it shows. It is safe for concurrent use. Close ends it.
type server struct {
	cfg    config
	of     parts
	secret string // in the path of the page's connector
	token  string // that forms which do more than chat must send
	turns  *turnlog.Log
	hub    *hub
	chat   *chat
	faults *faults
	keeper *keeper
	nums   *numbers
	tabs   []tabOf
}

// tabOf is an entry of the page's navigation.
type tabOf struct {
	Name string         `json:"name"`
	Path markup.Address `json:"path"`
}

//go:embed assets/* vendored/*/*
var assetFiles embed.FS

var assetHash = sync.OnceValue(func() string {
	hash := sha256.New()
	err := fs.WalkDir(assetFiles, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := assetFiles.ReadFile(name)
		fmt.Fprintf(hash, "%s %d\n", name, len(raw))
		hash.Write(raw)
		return err
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8])
})

const cardLibrary = "vendored/adaptivecards-3.0.6/adaptivecards.min.js"

// newServer makes the page of a bot, which is not served yet.
func newServer(cfg config) (*server, error) {
	if cfg.Name == "" {
		return nil, errors.New("page: no Name")
	}
	p := &server{cfg: cfg, secret: cmp.Or(cfg.Secret, rand.Text()), token: tokenOf(cfg.Keep), hub: newHub(cfg.Keep != "")}
	p.faults, p.nums, p.keeper = &faults{page: p}, &numbers{page: p}, &keeper{page: p, taken: map[string]time.Time{}}
	p.tabs = []tabOf{
		{"Chat", "/dev/"},
		{"Turns", "/dev/turns"},
		{"Activities", "/dev/activities"},
		{"Actions", "/dev/actions"},
		{"Prompts", "/dev/prompts"},
		{"Skills", "/dev/skills"},
		{"Parked", "/dev/parked"},
		{"Numbers", "/dev/numbers"},
		{"Evals", "/dev/evals"},
		{"Settings", "/dev/settings"},
		{"Help", "/dev/help"},
	}
	p.chat = newChat(cfg.Name, cfg.Secrets, func(room string) { p.hub.tell(event{Room: room}) })
	p.chat.keep = cfg.Keep
	p.turns = turnlog.New(turnlog.Config{
		Secrets: append([]string{p.secret, p.token}, cfg.Secrets...),
		Changed: func(h turnlog.Head) {
			p.hub.tell(event{Turn: h.ID})
		},
	})
	p.keeper.open()
	return p, nil
}

// Turns is the log of the turns that the page shows.
func (p *server) Turns() *turnlog.Log { return p.turns }

// WatchTurn is for [bot.Feature].Event: the log sees what happens, and it triggers the faults that
// were set.
func (p *server) WatchTurn(e turn.Event) {
	p.turns.WatchTurn(e)
	p.faults.watch(e)
}

// TurnURL is the address of the view of a turn; "": the page is not served yet.
func (p *server) TurnURL(id string) string {
	p.chat.mu.Lock()
	defer p.chat.mu.Unlock()
	if p.chat.webhook == "" {
		return ""
	}
	return strings.TrimSuffix(p.chat.webhook, "/api/messages") + "/dev/turns/" + id
}

// Model wraps the bot's model, so that the page can make it fail.
func (p *server) Model(m models.Model) models.Model { return faulty{m, p.faults} }

// HangUp ends the streams of open pages. Call it when the server shuts down, which would otherwise
// wait for them.
func (p *server) HangUp() { p.hub.close() }

// Close ends what New started.
func (p *server) Close() {
	p.hub.close()
	p.nums.close()
	p.turns.Close()
	p.keeper.close()
}

// Handler returns the handler of the page on that address, which must be a loopback address: / and
// everything below /dev/. The bot's webhook is /api/messages at the same address. Call it once.
func (p *server) Handler(addr net.Addr, of parts) (http.Handler, error) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("page: %s is no loopback address", addr)
	}
	p.of = of
	p.chat.connect("http://"+addr.String()+"/api/messages", "http://"+addr.String()+connectorPath+p.secret+"/")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/dev/", http.StatusSeeOther) })
	mux.HandleFunc("GET /dev/assets/{hash}/{name}", p.asset)
	mux.HandleFunc("GET /dev/stream", p.hub.serve)
	p.chatRoutes(mux)
	p.turnRoutes(mux)
	activityRoutes(p, mux)
	p.faults.routes(mux)
	parked{p}.routes(mux)
	p.nums.routes(mux)
	compared{p}.routes(mux)
	newActionViews(p).routes(mux)
	drafts := &promptViews{server: p, scrub: scrub.NewForSecrets(p.cfg.Secrets...), slots: make(chan struct{}, maxPreviews)}
	drafts.routes(mux)
	skillViews{p}.routes(mux)
	(&settingViews{server: p}).routes(mux)
	evalViews{p}.routes(mux)
	(&whatIf{page: p, drafts: drafts}).routes(mux)
	mux.HandleFunc("POST /dev/turns/{id}/go-on", p.acts(goOn{p}.begin))
	tests{p}.routes(mux)
	mux.HandleFunc("GET /dev/help", func(w http.ResponseWriter, _ *http.Request) { p.show(w, "/dev/help", "Help", helpPage()) })
	mux.HandleFunc("GET /dev/help.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": 1, "bot": p.cfg.Name, "views": p.tabs})
	})
	mux.HandleFunc("GET /dev/", func(w http.ResponseWriter, _ *http.Request) { p.fail(w, http.StatusNotFound, "There is no such page.") })
	return guard(tcp, jsonTwin(mux)), nil
}

// asset serves one of the page's files. Its address has the hash of all of them, so it never changes.
func (p *server) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file := "assets/" + name
	if name == path.Base(cardLibrary) {
		file = cardLibrary
	}
	raw, err := assetFiles.ReadFile(file)
	if err != nil || r.PathValue("hash") != assetHash() {
		p.fail(w, http.StatusNotFound, "There is no such file.")
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(raw))
}

// show writes a view. tab is the path of the entry in the navigation that it belongs to.
func (p *server) show(w http.ResponseWriter, tab markup.Address, title string, content g.Node, scripts ...string) {
	p.write(w, http.StatusOK, p.document(title, tab, content, scripts...))
}

// fail says why there is nothing to see: to programs that ask for a view as JSON in JSON, see jsonTwin.
func (p *server) fail(w http.ResponseWriter, status int, why string) {
	if w.Header().Get("Content-Type") == jsonType {
		w.WriteHeader(status)
		writeJSON(w, map[string]string{"error": why})
		return
	}
	title := http.StatusText(status)
	p.write(w, status, p.document(title, "", faultPage(title, why)))
}

// acts serves what does more than chat, such as running an action. The request needs the page's token,
// which forms send as "token" and scripts as X-Planbot-Token: it stops those who cannot read the page.
func (p *server) acts(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got := cmp.Or(r.Header.Get("X-Planbot-Token"), r.PostFormValue("token"))
		if subtle.ConstantTimeCompare([]byte(got), []byte(p.token)) != 1 {
			p.fail(w, http.StatusForbidden, "This needs the page's token: load the page again, then send the form again.")
			return
		}
		h(w, r)
	}
}

// write renders all of a view before it writes any of it.
func (p *server) write(w http.ResponseWriter, status int, content g.Node) {
	var out bytes.Buffer
	if err := content.Render(&out); err != nil {
		p.cfg.Log.Error().Err(err).Msg("the page cannot show this")
		http.Error(w, "This cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // if this fails, nobody reads it
}

func writeJSON(w http.ResponseWriter, v any) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		http.Error(w, "This cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(out.Bytes()) // if this fails, nobody reads it
}

const jsonType = "application/json"

// jsonTwin notes that a request is for the JSON twin of a view.
func jsonTwin(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".json") {
			w.Header().Set("Content-Type", jsonType)
		}
		h.ServeHTTP(w, r)
	})
}

func (p *server) turnRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/turns", p.turnList)
	mux.HandleFunc("GET /dev/turns.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": turnlog.Version, "turns": p.turns.Turns(), "tooFast": p.turns.TooFast()})
	})
	mux.HandleFunc("POST /dev/turns/{id}/pin", p.acts(func(w http.ResponseWriter, r *http.Request) {
		if !p.turns.Pin(r.PathValue("id"), r.PostFormValue("pinned") != "") {
			p.fail(w, http.StatusNotFound, "There is no such turn here any more.")
			return
		}
		if !byForm(r) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Redirect(w, r, "/dev/turns", http.StatusSeeOther)
	}))
	mux.HandleFunc("GET /dev/turns/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, asJSON := strings.CutSuffix(r.PathValue("id"), ".json")
		rec, ok := p.turns.Turn(id)
		switch {
		case !ok && !asJSON && p.isParked(r.Context(), id):
			http.Redirect(w, r, "/dev/parked/"+url.PathEscape(id), http.StatusSeeOther)
		case !ok:
			p.noTurn(w, id)
		case asJSON:
			countTokens(&rec, p.cfg.Counter)
			writeJSON(w, rec)
		default:
			p.show(w, "/dev/turns", "Turn "+id, p.turnPage(p.turnView(rec, true)))
		}
	})
}

// noTurn answers a request for a turn that is not there.
func (p *server) noTurn(w http.ResponseWriter, id string) {
	howLong := either(p.cfg.Keep == "", ", for as long as the bot runs.", ".")
	p.fail(w, http.StatusNotFound, "There is no turn "+id+" here. The page keeps the last ones"+howLong)
}

// isParked reports whether a turn that the page has not seen is a dead letter.
func (p *server) isParked(ctx context.Context, id string) bool {
	if p.of.Inbox == nil {
		return false
	}
	dead, _ := p.of.Inbox.Dead(ctx) // without them there is no such turn here
	return slices.ContainsFunc(dead, func(one inbox.Waiting) bool { return one.ID == id })
}

// filtered are the turns that match the filter of a request.
func (p *server) filtered(r *http.Request) []turnlog.Head {
	want, outcome := strings.ToLower(r.URL.Query().Get("q")), r.URL.Query().Get("outcome")
	return slices.DeleteFunc(p.turns.Turns(), func(h turnlog.Head) bool {
		about := append([]string{h.ID, p.who(h), p.placeName(h), h.Text, outcomeOf(h), h.Error, h.Refused}, h.Actions...)
		if want != "" {
			rec, _ := p.turns.Turn(h.ID) // it may be gone by now
			about = append(about, rec.Received.Dropped)
			for _, problem := range rec.Problems() {
				about = append(about, problem.Text)
			}
		}
		return !strings.Contains(strings.ToLower(strings.Join(about, " ")), want) || outcome != "" && outcomeOf(h) != outcome
	})
}

// turnList shows all turns, or those that match a filter.
func (p *server) turnList(w http.ResponseWriter, r *http.Request) {
	p.show(w, "/dev/turns", "Turns", p.turnsPage(p.turnListView(r)))
}

func (p *server) turnListView(r *http.Request) turnListView {
	q := r.URL.Query()
	return turnListView{
		Turns: p.filtered(r), Ticked: q["ticked"], TooFast: p.turns.TooFast(), Query: q.Get("q"), Outcome: q.Get("outcome"),
		Open: q.Get("turn"), All: q.Get("turns") == "all", Have: strings.Fields(q.Get("have")),
		Outcomes: []string{
			turnlog.Running, turnlog.OK, "unchanged", "refused", "not approved", turnlog.Failed,
			turnlog.Parked, turnlog.Waiting, turnlog.Joined, turnlog.Ignored, turnlog.Duplicate,
		},
	}
}

// lasting is what of a state is there after the turn, as JSON.
func lasting(s turn.State) jsontext.Value {
	s = maps.Clone(s)
	delete(s, "temp")
	return jsontext.Value(jsonText(s, ""))
}

func (p *server) turnView(rec turnlog.Record, page bool) *turnView {
	countTokens(&rec, p.cfg.Counter)
	rec.Person = p.who(rec.Head)
	v := &turnView{Record: rec, Page: page, Before: lasting(rec.Before), After: lasting(rec.After)}
	all := p.turns.Turns()
	for i, h := range all {
		if h.ID == rec.ID {
			if i > 0 {
				v.Next = all[i-1].ID
			}
			if i+1 < len(all) {
				v.Prev = all[i+1].ID
			}
		}
		if h.Parent == rec.ID {
			v.Follows = append(v.Follows, h)
		}
	}
	v.ByPath = merged(rec.Changes)
	v.Spans = waterfall(rec)
	return v
}

// connector answers as the Bot Framework connector does.
func (p *server) connector(mux *http.ServeMux) {
	c, at := p.chat, connectorPath+"{secret}/v3"
	handle := func(pattern string, h http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+at+path, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("secret") != p.secret {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			h(w, r)
		})
	}
	handle("POST /conversations/{conversation}/activities", p.faults.send(c.take))
	handle("POST /conversations/{conversation}/activities/{reply}", p.faults.send(c.take))
	handle("PUT /conversations/{conversation}/activities/{id}", p.faults.send(c.update))
	handle("DELETE /conversations/{conversation}/activities/{id}", c.remove)
	handle("PUT /conversations/{conversation}/activities/{id}/reactions/{reaction}", c.react)
	handle("DELETE /conversations/{conversation}/activities/{id}/reactions/{reaction}", c.react)
	mux.HandleFunc("GET "+connectorPath+"{secret}/"+filesPath+"{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("secret") != p.secret {
			http.NotFound(w, r)
			return
		}
		c.download(w, r)
	})
	handle("POST /conversations", c.create)
	handle("GET /conversations/{conversation}/pagedmembers", c.members)
	handle("GET /conversations/{conversation}/members/{user}", c.member)
	handle("GET /teams/{id}", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		n := len(c.people)
		c.mu.Unlock()
		fmt.Fprintf(w, `{"id":%q,"name":"Team","aadGroupId":"0d5b7c19-3e84-4a2f-96b0-d7e1f3a5c704","memberCount":%d}`, team, n)
	})
}

func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 ms"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return d.Round(100 * time.Millisecond).String()
}

// pretty indents JSON; any other text stays.
func pretty(v any) string {
	raw, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		raw = string(b)
	}
	var out bytes.Buffer
	if raw == "" || json.Indent(&out, []byte(raw), "", "  ") != nil {
		return raw
	}
	return out.String()
}

func (p *server) chatRoutes(mux *http.ServeMux) {
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
	post("who", func(r *http.Request) error {
		f := r.PostFormValue
		return p.chat.locate(f("as"), f("locale"), f("zone"))
	})
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
func (p *server) done(w http.ResponseWriter, r *http.Request, err error) {
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

func (p *server) workbench(w http.ResponseWriter, r *http.Request) {
	p.chat.look(r.URL.Query().Get("room"))
	p.show(w, "/dev/", "Chat", p.workbenchPage(p.workbenchView(r, lastMessages)), "chat.js")
}

// workbenchJSON is the chat for programs: the conversations, and the messages of one.
func (p *server) workbenchJSON(w http.ResponseWriter, r *http.Request) {
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
	v := p.workbenchView(r, maxMessages)
	rooms, messages := []about{}, []said{}
	for _, one := range v.Rooms {
		rooms = append(rooms, about{one.Key, one.Name, one.Kind, one.ID})
	}
	for _, m := range v.Messages {
		messages = append(messages, said{m.ID, cmp.Or(m.Person, "bot"), m.Turn, m.Note, m.Edited, m.Deleted, m.Activity})
	}
	writeJSON(w, map[string]any{"version": 1, "room": v.Room.Key, "rooms": rooms, "messages": messages})
}

const lastMessages, lastTurns = 20, 20 // how many a view has before somebody asks for all

// workbenchView has the last messages of a conversation, or all of them if somebody asks for all.
func (p *server) workbenchView(r *http.Request, most int) workbenchView {
	q := r.URL.Query()
	_, _, last, _ := p.hub.since(0)
	v := workbenchView{
		List: p.turnListView(r), Have: strings.Fields(q.Get("have")), Last: last, Bot: p.cfg.Name,
		Examples: p.cfg.Examples[:min(3, len(p.cfg.Examples))], Thread: q.Get("thread"),
	}
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
	ofActivity, sentBy := map[string]string{}, map[string]string{}
	for _, h := range p.turns.Turns() {
		if h.Outcome != turnlog.Duplicate && h.Activity != "" { // a notice answers none
			ofActivity[h.Activity] = cmp.Or(h.Joined, h.ID)
		}
		rec, _ := p.turns.Turn(h.ID) // it may be gone by now
		for _, one := range rec.Sent {
			if one.Room == v.Room.ID && sentBy[one.ID] == "" && (one.Kind == "send" || one.Kind == "reply") {
				sentBy[one.ID] = h.ID
			}
		}
	}
	if n := len(v.Room.Messages); n > most && q.Get("messages") != "all" {
		v.More, v.Room.Messages = n-most, v.Room.Messages[n-most:]
	}
	for _, m := range v.Room.Messages {
		if card, ok := m.Own[v.As]; ok {
			own := *m.Activity
			own.Attachments = []activity.Attachment{card}
			m.Activity, m.Edited = &own, true
		}
		s := p.shown(m, v.Room)
		s.As = v.As
		if s.Turn = ofActivity[m.ID]; m.Person == "" {
			s.Turn = cmp.Or(sentBy[m.ID], ofActivity[m.ReplyTo])
		}
		v.Messages = append(v.Messages, s)
	}
	if rec, ok := p.turns.Turn(q.Get("turn")); ok {
		v.Turn = p.turnView(rec, false)
	}
	return v
}

// parts are the pieces of the workbench that the script loads anew when something has changed.
func (p *server) parts(w http.ResponseWriter, r *http.Request) {
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
		v := p.workbenchView(r, lastMessages)
		fragments := map[string]func() g.Node{
			"messages": v.messages,
			"turns":    func() g.Node { return p.turnRows(v.List) },
			"turn":     func() g.Node { return p.openTurn(v.Turn) },
			"rooms":    v.rooms,
			"alarm":    p.alarm,
		}
		p.write(w, http.StatusOK, fragments[part]())
	default:
		http.NotFound(w, r)
	}
}

func (p *server) shown(m message, in snapshot) shownMessage {
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
	return s
}

// policy lets the page run nothing that was not shipped with it, and show no picture from elsewhere.
// The last three names are those that the library for cards makes when it is loaded.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types planbot " +
	"adaptivecards#markdownPassthroughPolicy adaptivecards#restoreContentsPolicy adaptivecards#deprecatedExportedFunctionPolicy"

const maxBody = 4 << 20 // limits what a browser or the bot may send to the page

// guard lets only pages of this origin, and programs of this machine, reach h. It looks at every
// request before it is routed. at is where the page is served.
func guard(at *net.TCPAddr, h http.Handler) http.Handler {
	hosts := []string{}
	for _, name := range []string{at.IP.String(), "127.0.0.1", "::1", "localhost"} {
		host := net.JoinHostPort(name, strconv.Itoa(at.Port))
		hosts = append(hosts, host)
		if at.Port == 80 {
			hosts = append(hosts, strings.TrimSuffix(host, ":80"))
		}
	}
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := w.Header().Set
		set("Content-Security-Policy", policy)
		set("Cross-Origin-Opener-Policy", "same-origin")
		set("Cross-Origin-Resource-Policy", "same-origin")
		set("X-Content-Type-Options", "nosniff")
		set("Referrer-Policy", "no-referrer")
		set("Cache-Control", "no-store")
		why := ""
		switch {
		case !slices.Contains(hosts, r.Host): // a name that was made to lead here
			why = "The page is at http://" + hosts[0] + "/ only."
		case loopback.Proxied(r.Header):
			why = "The page is not for proxies and tunnels."
		case crossOrigin.Check(r) != nil, !sameSite(r):
			why = "The page is not for other sites."
		}
		if why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	})
}

// sameSite reports whether a request that only reads comes from the page itself, from the person who
// types its address, or from no browser.
func sameSite(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); r.Method == http.MethodGet && origin != "" && origin != "http://"+r.Host {
		return false // the own forms have the origin null, since the page sends no referrer
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
}

// isJSON reports whether the body says that it is JSON, which no form of another site can.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
