package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	json "github.com/go-json-experiment/json/v1" // which keeps fields that nobody knows, see [activity.Activity]
	"github.com/google/uuid"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/scrub"
)

// person is somebody who talks to the bot on the page. The ids look like those of Teams.
type person struct {
	Key, Name, ID, Directory, Locale, Zone string
}

// account is the person as an activity names them.
func (p person) account() map[string]any {
	return map[string]any{"id": p.ID, "name": p.Name, "aadObjectId": p.Directory}
}

// room is a conversation.
type room struct {
	Key, Name, Kind, ID string
	People              []person
	Added               bool // the bot was told that it is in it
	messages            []*message
	typing              time.Time // until when the bot types
	renamed             bool      // by somebody, since this process began
}

// message is a message in a room.
type message struct {
	ID, Thread, Person string // Person: the key; "": the bot
	At                 time.Time
	Activity           *activity.Activity
	ReplyTo            string
	Note               string // what the page has to say about it
	Streaming          bool   // it still grows
	Edited, Deleted    bool
	Reactions          []string
	Rated              string
	Shown              bool // the messages of the room were shown when it was whole
	// Own are the cards that answered a click, by the key of the person: others see the card as it was.
	Own     map[string]activity.Attachment
	earlier bool // another process had it, see [keeper]
}

const (
	tenant      = "5e8f1d3a-7c24-4b6d-9a51-0c3e7d2b9f10"
	botAccount  = "28:3f0c9a52-6d1e-4e0b-8b7c-51a2d4c6e8f0"
	team        = "19:8d3c5f7b1a2e4d6089b1c3e5f7a9d2b4@thread.tacv2"
	maxMessages = 500 // of a room
	maxPeople   = 30
	maxRooms    = 60
	maxFiles    = 10
	maxName     = 60
	typingFor   = 10 * time.Second // how long a typing indicator is shown
	postWithin  = 30 * time.Second // limits one request to the bot: an invoke waits for its turn
)

// chat holds the conversations of the page. It is safe for concurrent use.
type chat struct {
	bot     string
	changed func(room string)
	secrets scrub.Secrets // which are taken out of JSON
	client  *http.Client
	webhook string
	service string // where the bot reaches the page
	keep    string // folder with the files for the process that comes next; "": they end with this one

	mu     sync.Mutex
	people []person
	rooms  []*room
	given  int           // how many of the rooms the page began with
	files  []*sharedFile // the last ones
	lastID int64
	last   []byte // the last activity that was posted

	refused []passed // the last ones that the bot did not take
}

// sharedFile is a file that a person sent to the bot.
type sharedFile struct {
	ID, Name string
	Content  []byte
}

func newChat(bot string, secrets []string, changed func(room string)) *chat {
	c := &chat{
		bot:     bot,
		changed: changed,
		secrets: scrub.NewSecrets(secrets...),
		client:  &http.Client{Timeout: postWithin, Transport: &http.Transport{Proxy: nil}},
	}
	c.people = []person{
		{"mia", "Mia Meyer", "29:1x7Qm2mia-R4nE8sKd0wPzVb", "6f1c2c1e-4b7d-4c58-9c0e-2f5b1a7d3e01", "en-US", "Europe/Berlin"},
		{"otto", "Otto Oduya", "29:1x7Qm2otto-T9yH3uLf6cXaJq", "a42d7b90-15e3-4f6a-8d2c-7e90b3c5f102", "en-US", "America/New_York"},
		{"ada", "Ada Lund", "29:1x7Qm2ada-W5vB1iNg7rZoMe", "c9e05d38-62fb-4a17-b38e-10d4f6a8c203", "de-DE", "Europe/Berlin"},
	}
	for _, p := range c.people {
		c.rooms = append(c.rooms, &room{Key: p.Key, Name: p.Name, Kind: "personal", ID: "a:1pX" + p.Key + "-Zk8Lq3VtYb6Wn2", People: []person{p}})
	}
	c.rooms = append(c.rooms,
		&room{Key: "lunch", Name: "Lunch", Kind: "groupChat", ID: "19:2f7a9c1e5b3d4860a1c3e5f7b9d2a4c6@thread.v2", People: c.people},
		&room{Key: "general", Name: "General", Kind: "channel", ID: "19:4b6d8f0a2c4e4688b0d2f4a6c8e0a2c4@thread.tacv2", People: c.people},
	)
	c.given = len(c.rooms)
	return c
}

// connect says where the bot is, and where it reaches the page.
func (c *chat) connect(webhook, service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.webhook, c.service = webhook, service
}

// room returns a room by its key or the id of its conversation, with or without a thread. The caller
// holds the lock.
func (c *chat) room(key string) *room {
	base, _, _ := strings.Cut(key, ";")
	for _, r := range c.rooms {
		if r.Key == key || r.ID == base {
			return r
		}
	}
	return nil
}

// nameOf is the name of the room with that conversation; "": there is none.
func (c *chat) nameOf(conversation string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.room(conversation); r != nil {
		return r.Name
	}
	return ""
}

// nameOfPerson is the name of the person of the page with that id; "": there is none.
func (c *chat) nameOfPerson(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := (&room{People: c.people}).person(id)
	return p.Name
}

func (r *room) person(key string) (person, bool) {
	i := slices.IndexFunc(r.People, func(p person) bool { return p.Key == key || p.ID == key || p.Directory == key })
	if i < 0 {
		return person{}, false
	}
	return r.People[i], true
}

// speaker is the person with that key, or the first one.
func (r *room) speaker(key string) person {
	if p, ok := r.person(key); ok {
		return p
	}
	return r.People[0]
}

func (r *room) message(id string) *message {
	for _, m := range r.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// nextID is the id of a new message: like those of Teams, the time in milliseconds. The caller holds
// the lock.
func (c *chat) nextID() string {
	c.lastID = max(c.lastID+1, time.Now().UnixMilli())
	return strconv.FormatInt(c.lastID, 10)
}

// add appends a message. The caller holds the lock.
func (r *room) add(m *message) {
	if len(r.messages) == maxMessages {
		r.messages = slices.Delete(r.messages, 0, 1)
	}
	r.messages = append(r.messages, m)
}

// look notes that the messages of a room, or of the first one, are shown.
func (c *chat) look(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range cmp.Or(c.room(key), c.rooms[0]).messages {
		m.Shown = !m.Streaming
	}
}

// snapshot is a room as a view shows it.
type snapshot struct {
	room
	Messages []message
	Typing   bool
	Threads  []message // the first message of each, in a channel
	Given    bool      // the page began with it
}

// listed is a room in the list of all.
type listed struct {
	room
	Unread bool // the bot has said something in it since it was shown
}

// show returns a copy of a room, and the list of all.
func (c *chat) show(key string) (s snapshot, all []listed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.room(key)
	if r == nil {
		r = c.rooms[0]
	}
	s.room, s.Typing, s.Given = *r, time.Now().Before(r.typing), slices.Index(c.rooms, r) < c.given
	s.messages = nil
	for _, m := range r.messages {
		s.Messages = append(s.Messages, *m)
		if r.Kind == "channel" && m.Thread == m.ID {
			s.Threads = append(s.Threads, *m)
		}
	}
	for _, one := range c.rooms {
		next := listed{*one, slices.ContainsFunc(one.messages, func(m *message) bool {
			return m.Person == "" && !m.Shown && !m.Streaming && !m.Deleted
		})}
		next.messages = nil
		all = append(all, next)
	}
	return s, all
}

// errNobody says that a request names a person, a room or a message that is not there.
var errNobody = errors.New("there is no such person, conversation or message")

// activity makes an activity of a person in a room. The caller holds the lock.
func (c *chat) activity(r *room, p person, thread string, fields map[string]any) map[string]any {
	now, id := time.Now(), r.ID
	if r.Kind == "channel" && thread != "" {
		id += ";messageid=" + thread
	}
	data := map[string]any{"tenant": map[string]any{"id": tenant}}
	if r.Kind == "channel" {
		data["team"] = map[string]any{"id": team, "name": "Team"}
		data["teamsTeamId"], data["teamsChannelId"] = team, r.ID
		data["channel"] = map[string]any{"id": r.ID}
	}
	local := now
	if zone, err := time.LoadLocation(p.Zone); err == nil {
		local = now.In(zone)
	}
	a := map[string]any{
		"id": c.nextID(), "channelId": activity.Teams, "serviceUrl": c.service, "timestamp": now.UTC().Format(time.RFC3339Nano),
		"localTimestamp": local.Format(time.RFC3339Nano), "localTimezone": p.Zone, "locale": p.Locale,
		"from": p.account(), "recipient": map[string]any{"id": botAccount, "name": c.bot},
		"conversation": map[string]any{"id": id, "conversationType": r.Kind, "isGroup": r.Kind != "personal", "tenantId": tenant},
		"channelData":  data,
		"entities":     []any{map[string]any{"type": "clientInfo", "locale": p.Locale, "timezone": p.Zone, "platform": "Web", "country": "DE"}},
	}
	for name, value := range fields {
		switch merged, ok := value.(map[string]any); {
		case name == "channelData" && ok:
			maps.Copy(data, merged)
		case name == "entities":
			a["entities"] = append(a["entities"].([]any), value.([]any)...) //nolint:forcetypeassert // made above
		default:
			a[name] = value
		}
	}
	return a
}

// mentions finds @NAME of the bot and of people in what somebody typed, and writes it as Teams does.
func (c *chat) mentions(r *room, text string) (marked string, entities []any, ofBot bool) {
	type named struct{ name, id string }
	all := []named{{c.bot, botAccount}}
	for _, p := range r.People {
		all = append(all, named{p.Name, p.ID})
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(len(b.name), len(a.name)) })
	forms := make([]string, len(all))
	for i, one := range all {
		forms[i] = regexp.QuoteMeta(one.name)
	}
	found := regexp.MustCompile(`(?i)(^|\s)@(` + strings.Join(forms, "|") + `)\b`)
	marked = found.ReplaceAllStringFunc(text, func(match string) string {
		parts := found.FindStringSubmatch(match)
		i := slices.IndexFunc(all, func(one named) bool { return strings.EqualFold(one.name, parts[2]) })
		at := "<at>" + all[i].name + "</at>"
		ofBot = ofBot || all[i].id == botAccount
		entities = append(entities, map[string]any{"type": "mention", "text": at, "mentioned": map[string]any{"id": all[i].id, "name": all[i].name}})
		return parts[1] + at
	})
	return marked, entities, ofBot
}

// said is what a person sends.
type said struct {
	Room, As, Thread, Text string
	All                    bool        // the bot hears all messages
	File                   *sharedFile // in a personal chat; nil: none
}

// pasted is what a JSON object in the message box stands for: a card, or an activity of that person.
// nil: it is a text.
func pasted(text string) map[string]any {
	var fields map[string]any
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || json.Unmarshal([]byte(text), &fields) != nil {
		return nil
	}
	switch kind, _ := fields["type"].(string); kind {
	case "":
		return nil
	case "AdaptiveCard":
		return map[string]any{"type": "message", "attachments": []any{map[string]any{"contentType": activity.CardContentType, "content": fields}}}
	}
	for _, name := range []string{"id", "serviceUrl", "channelId", "conversation", "from", "recipient"} { // those of this chat
		delete(fields, name)
	}
	if _, ok := fields["entities"].([]any); !ok {
		delete(fields, "entities")
	}
	return fields
}

// share keeps a file for the bot, and returns how Teams tells of it. The caller holds the lock.
func (c *chat) share(f *sharedFile) map[string]any {
	f.ID = rand.Text()
	if len(c.files) == maxFiles {
		c.files = slices.Delete(c.files, 0, 1)
	}
	c.files = append(c.files, f)
	c.keepFile(f)
	address := c.service + filesPath + f.ID
	kind := strings.TrimPrefix(path.Ext(f.Name), ".")
	return map[string]any{
		"contentType": "application/vnd.microsoft.teams.file.download.info", "name": f.Name, "contentUrl": address,
		"content": map[string]any{"downloadUrl": address, "uniqueId": f.ID, "fileType": kind},
	}
}

// file is a file that a person sent; nil: there is none, or no more.
func (c *chat) file(id string) *sharedFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if f.ID == id {
			return f
		}
	}
	return c.keptFile(id)
}

// nameFor checks the name of a new person or conversation.
func nameFor(name string) (string, error) {
	name = strings.Join(strings.Fields(name), " ")
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("the name must have 1 to %d characters that can be seen", maxName)
	}
	return name, nil
}

// addPerson adds somebody to the page, and to its groups and channels.
func (c *chat) addPerson(name string) error {
	name, err := nameFor(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.people) == maxPeople || len(c.rooms) == maxRooms {
		return errors.New("there is no room for more people")
	}
	key, id := "person"+strconv.Itoa(len(c.people)+1), rand.Text()
	p := person{key, name, "29:1x" + id, uuid.NewString(), "en-US", "Europe/Berlin"}
	c.people = append(slices.Clip(c.people), p)
	for _, r := range c.rooms {
		if r.Kind != "personal" {
			r.People = c.people
		}
	}
	c.rooms = append(c.rooms, &room{Key: key, Name: name, Kind: "personal", ID: "a:1pX" + id, People: []person{p}})
	return nil
}

// locate changes the language and the time zone of a person, in all conversations.
func (c *chat) locate(key, locale, zone string) error {
	if !localeForm.MatchString(locale) {
		return errors.New("a locale is like en-US or de")
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return errors.New("a zone is like Europe/Berlin or UTC")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := func(all []person) []person {
		all = slices.Clone(all)
		for i := range all {
			if all[i].Key == key {
				all[i].Locale, all[i].Zone = locale, zone
			}
		}
		return all
	}
	c.people = changed(c.people)
	for _, r := range c.rooms {
		r.People = changed(r.People)
	}
	return nil
}

var localeForm = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

func (c *chat) addRoom(name string) error {
	name, err := nameFor(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rooms) == maxRooms {
		return errTooMany
	}
	id := strings.ToLower(rand.Text())
	c.rooms = append(c.rooms, &room{Key: "group" + id, Name: name, Kind: "groupChat", ID: "19:" + id + "@thread.v2", People: c.people})
	return nil
}

// renameRoom gives a conversation another name on the page. The bot is not told.
func (c *chat) renameRoom(key, name string) error {
	name, err := nameFor(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.room(key)
	if r == nil {
		return errNobody
	}
	r.Name, r.renamed = name, true
	return nil
}

// deleteRoom takes a conversation off the page, unless the page began with it. The bot is not told, and
// keeps what it knows of it.
func (c *chat) deleteRoom(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.rooms, func(r *room) bool { return r.Key == key })
	switch {
	case at < 0:
		return errNobody
	case at < c.given:
		return errors.New("the page always has this conversation")
	}
	c.rooms = slices.Delete(c.rooms, at, at+1)
	return nil
}

// say shows what a person says, and delivers it if Teams would.
func (c *chat) say(ctx context.Context, s said) error {
	c.mu.Lock()
	r := c.room(s.Room)
	if r == nil || strings.TrimSpace(s.Text) == "" && s.File == nil {
		c.mu.Unlock()
		return errNobody
	}
	if s.File != nil && r.Kind != "personal" {
		c.mu.Unlock()
		return errors.New("Teams hands files to a bot in personal chats only")
	}
	p := r.speaker(s.As)
	text, entities, toBot := c.mentions(r, s.Text)
	m := &message{ID: c.nextID(), Person: p.Key, At: time.Now()}
	if r.Kind == "channel" {
		m.Thread = cmp.Or(s.Thread, m.ID)
	}
	other := false // it is no message
	fields := map[string]any{"type": "message", "text": text, "textFormat": "plain", "entities": entities}
	if s.File != nil {
		fields["attachments"] = []any{c.share(s.File)}
	} else if own := pasted(s.Text); own != nil {
		fields, toBot = own, true
		if other = own["type"] != string(activity.Message); other {
			m.Note = fmt.Sprintf("sent as an activity of the type %v", own["type"])
		}
	}
	fields["id"] = m.ID
	a := c.activity(r, p, m.Thread, fields)
	m.Activity = c.without(decode(a))
	r.add(m)
	deliver := r.Kind == "personal" || toBot || s.All
	if !deliver {
		m.Note = "not delivered: Teams would not tell the bot, because nobody mentioned it"
	}
	c.mu.Unlock()
	c.changed(r.Key)
	if !deliver {
		return nil
	}
	body, err := c.post(ctx, a)
	if err != nil {
		c.note(r, m.ID, err.Error())
	} else if other {
		c.answered(r, m.ID, p.Key, body)
	}
	return nil
}

// without is an activity without the secrets that the page must never show.
func (c *chat) without(a *activity.Activity) *activity.Activity {
	raw, err := a.Encode()
	if err != nil {
		return a
	}
	hidden := c.secrets.Hide(string(raw))
	if hidden == string(raw) {
		return a
	}
	clean := &activity.Activity{}
	if err := json.Unmarshal([]byte(hidden), clean); err != nil {
		return &activity.Activity{Type: a.Type, Text: scrub.Secret}
	}
	return clean
}

// decode reads an activity that the page made.
func decode(a map[string]any) *activity.Activity {
	raw, err := json.Marshal(a)
	if err != nil {
		return &activity.Activity{}
	}
	read, err := activity.Decode(raw)
	if err != nil {
		return &activity.Activity{}
	}
	return read
}

func (c *chat) note(r *room, id, note string) {
	c.mu.Lock()
	if m := r.message(id); m != nil {
		m.Note = note
	}
	c.mu.Unlock()
	c.changed(r.Key)
}

// act delivers the activity that f makes for a room. f holds the lock, and returns nil if there is none.
func (c *chat) act(ctx context.Context, roomKey string, f func(r *room) map[string]any) error {
	c.mu.Lock()
	r := c.room(roomKey)
	var a map[string]any
	if r != nil {
		a = f(r)
	}
	c.mu.Unlock()
	if a == nil {
		return errNobody
	}
	c.changed(r.Key)
	_, err := c.post(ctx, a)
	return err
}

// event tells the bot of something that is not a message: who came and went.
func (c *chat) event(ctx context.Context, roomKey, as, kind string) error {
	return c.act(ctx, roomKey, func(r *room) map[string]any {
		bot, other := []any{map[string]any{"id": botAccount, "name": c.bot}}, []any{c.people[len(c.people)-1].account()}
		fields := map[string]any{"type": "conversationUpdate"}
		switch kind {
		case "botAdded":
			fields["membersAdded"], r.Added = bot, true
		case "botRemoved":
			fields["membersRemoved"], r.Added = bot, false
		case "userAdded":
			fields["membersAdded"] = other
		case "userRemoved":
			fields["membersRemoved"] = other
		case "install":
			fields["type"], fields["action"], r.Added = "installationUpdate", "add", true
		case "uninstall":
			fields["type"], fields["action"], r.Added = "installationUpdate", "remove", false
		default:
			return nil
		}
		return c.activity(r, r.speaker(as), "", fields)
	})
}

// again delivers the last activity once more, as channels do when an answer was late.
func (c *chat) again(ctx context.Context) error {
	c.mu.Lock()
	raw := c.last
	c.mu.Unlock()
	if raw == nil {
		return errors.New("nothing was delivered yet")
	}
	_, err := c.send(ctx, raw)
	return err
}

// change edits or deletes a person's own message, or has somebody react to one.
func (c *chat) change(ctx context.Context, roomKey, as, id, kind, text string) error {
	return c.act(ctx, roomKey, func(r *room) (a map[string]any) {
		m := r.message(id)
		switch {
		case m == nil:
		case kind == "edit" && m.Person != "":
			marked, entities, _ := c.mentions(r, text)
			a = c.activity(r, r.speaker(m.Person), m.Thread, map[string]any{
				"type": "messageUpdate", "id": id, "text": marked, "textFormat": "plain", "entities": entities, "channelData": map[string]any{"eventType": "editMessage"},
			})
			m.Activity, m.Edited = c.without(decode(a)), true
		case kind == "delete" && m.Person != "":
			a = c.activity(r, r.speaker(m.Person), m.Thread, map[string]any{
				"type": "messageDelete", "id": id, "channelData": map[string]any{"eventType": "softDeleteMessage"},
			})
			m.Deleted = true
		case kind == "react":
			field := "reactionsAdded"
			if i := slices.Index(m.Reactions, text); i >= 0 {
				field, m.Reactions = "reactionsRemoved", slices.Delete(slices.Clone(m.Reactions), i, i+1)
			} else {
				m.Reactions = append(slices.Clip(m.Reactions), text)
			}
			a = c.activity(r, r.speaker(as), m.Thread, map[string]any{"type": "messageReaction", "replyToId": id, field: []any{map[string]any{"type": text}}})
		}
		return a
	})
}

// click is a click on a button of a card.
type click struct {
	Room    string         `json:"room"`
	As      string         `json:"as"`
	Message string         `json:"message"`
	Type    string         `json:"type"` // Action.Execute or Action.Submit
	Title   string         `json:"title"`
	Verb    string         `json:"verb"`
	ID      string         `json:"id"`
	Data    map[string]any `json:"data"`
}

// press delivers a click. It returns what the bot's answer says to whoever clicked.
func (c *chat) press(ctx context.Context, k click) error {
	c.mu.Lock()
	r := c.room(k.Room)
	if r == nil || r.message(k.Message) == nil {
		c.mu.Unlock()
		return errNobody
	}
	m, p := r.message(k.Message), r.speaker(k.As)
	if k.Data == nil {
		k.Data = map[string]any{}
	}
	fields := map[string]any{"type": "message", "replyToId": m.ID, "value": k.Data}
	if teams, ok := k.Data["msteams"].(map[string]any); ok && k.Type == "Action.Submit" {
		text, _ := cmpAny(teams["text"], teams["value"]).(string)
		switch teams["type"] {
		case "imBack":
			c.mu.Unlock()
			return c.say(ctx, said{Room: r.Key, As: p.Key, Thread: m.Thread, Text: text, All: true})
		case "messageBack":
			fields["text"], fields["value"] = text, cmpAny(teams["value"], k.Data)
		}
	}
	if k.Type == "Action.Execute" {
		action := map[string]any{"type": k.Type, "title": k.Title, "verb": k.Verb, "id": k.ID, "data": k.Data}
		fields = map[string]any{
			"type": "invoke", "name": "adaptiveCard/action", "replyToId": m.ID,
			"value": map[string]any{"action": action, "trigger": "manual"},
		}
	}
	a := c.activity(r, p, m.Thread, fields)
	c.mu.Unlock()
	body, err := c.post(ctx, a)
	if err != nil {
		c.note(r, m.ID, err.Error())
		return nil
	}
	c.answered(r, m.ID, p.Key, body)
	return nil
}

// cmpAny returns the first value that is there.
func cmpAny(values ...any) any {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// answered shows the answer to a click: to that person a card in place of the one that was clicked, or a text below it.
func (c *chat) answered(r *room, id, who string, body []byte) {
	var answer struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal([]byte(c.secrets.Hide(string(body))), &answer) != nil || answer.Value == nil {
		return
	}
	c.mu.Lock()
	m := r.message(id)
	switch {
	case m == nil:
	case answer.Type == activity.CardContentType:
		own := map[string]activity.Attachment{who: {ContentType: answer.Type, Content: []byte(answer.Value)}}
		for other, card := range m.Own {
			if other != who {
				own[other] = card
			}
		}
		m.Own, m.Note = own, ""
	default:
		var text string
		if json.Unmarshal(answer.Value, &text) != nil {
			var fault struct {
				Message string `json:"message"`
			}
			_ = json.Unmarshal(answer.Value, &fault) // else it is empty
			text = fault.Message
		}
		if text != "" {
			m.Note = text // Teams shows it to whoever clicked, for a moment
		}
	}
	c.mu.Unlock()
	c.changed(r.Key)
}

// rate tells the bot what a person thinks of a message.
func (c *chat) rate(ctx context.Context, roomKey, as, id, reaction, text string) error {
	return c.act(ctx, roomKey, func(r *room) map[string]any {
		m := r.message(id)
		if m == nil || reaction != "like" && reaction != "dislike" {
			return nil
		}
		m.Rated = reaction
		feedback, _ := json.Marshal(map[string]string{"feedbackText": text}) // a text
		return c.activity(r, r.speaker(as), m.Thread, map[string]any{
			"type": "invoke", "name": "message/submitAction", "replyToId": id,
			"value": map[string]any{"actionName": "feedback", "actionValue": map[string]any{"reaction": reaction, "feedback": string(feedback)}},
		})
	})
}

// post delivers an activity to the bot and returns its answer.
func (c *chat) post(ctx context.Context, a map[string]any) ([]byte, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write the activity: %w", err)
	}
	c.mu.Lock()
	c.last = raw
	c.mu.Unlock()
	return c.send(ctx, raw)
}

var errTooMany = fmt.Errorf("there are %d conversations already, and no more are possible until one is deleted", maxRooms)

// copied makes a conversation like the one of an activity, with new ids for it and for its people, and with
// the messages that were there at that time; without the activity itself, if before is set. ids are the new
// ids by the old ones. It is not shown before it is added.
func (c *chat) copied(a *activity.Activity, at time.Time, before bool) (next *room, ids map[string]string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rooms) >= maxRooms {
		return nil, nil, errTooMany
	}
	old := c.room(a.Conversation.ID)
	if old == nil { // it was in another channel, or was deleted
		who := person{Key: "person", Name: cmp.Or(a.From.Name, "Somebody"), ID: a.From.ID, Directory: a.From.AadObjectID, Locale: a.Locale, Zone: "UTC"}
		old = &room{Key: "other", Name: who.Name, Kind: cmp.Or(a.Conversation.ConversationType, "personal"), ID: a.Conversation.BaseID(), People: []person{who}}
	}
	n := 2
	for c.room(fmt.Sprintf("%s-%d", old.Key, n)) != nil {
		n++
	}
	fresh := func() string { return strings.ToLower(rand.Text()) }
	next = &room{Key: fmt.Sprintf("%s-%d", old.Key, n), Name: fmt.Sprintf("%s (copy %d)", old.Name, n-1), Kind: old.Kind, Added: true}
	switch old.Kind {
	case "personal":
		next.ID = "a:1pX" + fresh()
	case "channel":
		next.ID = "19:" + fresh() + "@thread.tacv2"
	default:
		next.ID = "19:" + fresh() + "@thread.v2"
	}
	ids = map[string]string{old.ID: next.ID}
	for _, p := range old.People {
		was := p
		p.ID, p.Directory = "29:1x7Qm2"+fresh(), uuid.NewString()
		ids[was.ID] = p.ID
		if was.Directory != "" {
			ids[was.Directory] = p.Directory
		}
		next.People = append(next.People, p)
	}
	for _, m := range old.messages {
		if m.At.After(at) || before && m.ID == a.ID {
			break
		}
		own := *m
		own.Streaming = false
		next.messages = append(next.messages, &own)
	}
	return next, ids, nil
}

// open shows a conversation that was made.
func (c *chat) open(next *room) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rooms) >= maxRooms || c.room(next.Key) != nil {
		return errTooMany
	}
	c.rooms = append(c.rooms, next)
	return nil
}

// keepFile keeps a file for the next process, and the last ones of them only. If it cannot, the file ends
// with this process.
func (c *chat) keepFile(f *sharedFile) {
	raw, err := json.Marshal(f)
	if c.keep == "" || err != nil || os.WriteFile(filepath.Join(c.keep, f.ID+fileEnd), raw, 0o600) != nil {
		return
	}
	names, _ := filepath.Glob(filepath.Join(c.keep, "*"+fileEnd)) // the pattern is right
	at := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			at[name] = info.ModTime()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return at[b].Compare(at[a]) })
	for _, name := range names[min(maxFiles, len(names)):] {
		_ = os.Remove(name) // the next file tries again
	}
}

// keptFile is a file that was sent to an earlier process; nil: there is none.
func (c *chat) keptFile(id string) *sharedFile {
	if c.keep == "" || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" { // see rand.Text
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(c.keep, id+fileEnd))
	f := &sharedFile{}
	if err != nil || json.Unmarshal(raw, f) != nil {
		return nil
	}
	return f
}

// kept adds the chat to what is kept, and encodes it.
func (c *chat) kept(all *handover) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.People, all.LastID = c.people, c.lastID
	for _, r := range c.rooms {
		all.Rooms = append(all.Rooms, keptRoom{*r, r.messages})
	}
	return json.Marshal(all)
}

// restore adds what another process has kept of the chat.
func (c *chat) restore(from handover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = max(c.lastID, from.LastID)
	for _, p := range from.People {
		if !slices.ContainsFunc(c.people, func(other person) bool { return other.Key == p.Key }) {
			c.people = append(c.people, p)
		}
	}
	for _, other := range from.Rooms {
		r := c.room(other.Key)
		if r == nil {
			r = &room{Key: other.Key, Name: other.Name, Kind: other.Kind, ID: other.ID}
			c.rooms = append(c.rooms, r)
		}
		if !r.renamed {
			r.Name = other.Name
		}
		r.Added = r.Added || other.Added
		if len(other.People) > len(r.People) {
			r.People = other.People
		}
		for _, m := range other.Messages {
			m.earlier = true
			at := slices.IndexFunc(r.messages, func(known *message) bool { return known.ID == m.ID })
			switch {
			case at < 0:
				r.messages = append(r.messages, m)
			case r.messages[at].earlier:
				r.messages[at] = m
			}
		}
		slices.SortStableFunc(r.messages, func(a, b *message) int { return a.At.Compare(b.At) })
		r.messages = r.messages[max(len(r.messages)-maxMessages, 0):]
		c.changed(r.Key)
	}
}

// This file is the page as a channel: how activities reach the bot, and the connector that the bot
// answers to.

const connectorPath = "/dev/channel/" // where the connector is, before its secret

const filesPath = "files/" // where the files are that people sent, behind the secret

// download serves a file that a person sent.
func (c *chat) download(w http.ResponseWriter, r *http.Request) {
	f := c.file(r.PathValue("id"))
	if f == nil {
		refused(w, http.StatusNotFound, "NotFound", "the page has no such file, or no more")
		return
	}
	kind := cmp.Or(mime.TypeByExtension(path.Ext(f.Name)), "application/octet-stream")
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", "attachment")
	_, _ = w.Write(f.Content) // the bot is gone if it fails
}

// send posts an activity to the bot's webhook.
func (c *chat) send(ctx context.Context, raw []byte) ([]byte, error) {
	c.mu.Lock()
	webhook := c.webhook
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, webhook, bytes.NewReader(raw)) // the client has a timeout
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	res, err := c.client.Do(req)
	if err != nil {
		c.refuse(raw, "no answer")
		return nil, fmt.Errorf("deliver: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		c.refuse(raw, res.Status)
		return body, fmt.Errorf("the bot answered %s", res.Status)
	}
	return body, nil
}

// refuse notes what the bot did not take.
func (c *chat) refuse(raw []byte, status string) {
	var a struct {
		Type, Text string
		From       struct{ Name string }
	}
	hidden := c.secrets.Hide(string(raw))
	if json.Unmarshal([]byte(hidden), &a) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused[max(0, len(c.refused)-maxKept):], passed{
		At: time.Now(), Kind: a.Type, Person: a.From.Name, Text: a.Text, Status: status, Bad: true, Activity: []byte(hidden),
	})
}

// refused is the connector's answer to what it cannot do.
func refused(w http.ResponseWriter, status int, code, why string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": why}}) // the bot is gone if it fails
}

func accepted(w http.ResponseWriter, status int, id string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"id":%q}`, id)
}

// read returns the activity of a request, and the room that it is for. ok is false if there is none.
func (c *chat) read(w http.ResponseWriter, r *http.Request) (a *activity.Activity, to *room, ok bool) {
	raw, err := io.ReadAll(r.Body)
	a = &activity.Activity{}
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, a)
	}
	if err != nil {
		refused(w, http.StatusBadRequest, "BadArgument", "no activity: "+err.Error())
		return nil, nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if to = c.room(r.PathValue("conversation")); to == nil {
		refused(w, http.StatusNotFound, "ConversationNotFound", "the page has no such conversation")
		return nil, nil, false
	}
	return a, to, true
}

func thread(conversation string) string {
	_, id, _ := strings.Cut(conversation, ";messageid=")
	return id
}

func (c *chat) take(w http.ResponseWriter, r *http.Request) {
	a, to, ok := c.read(w, r)
	if !ok {
		return
	}
	id, status := c.put(a, to, thread(r.PathValue("conversation")), r.PathValue("reply"))
	accepted(w, status, id)
	c.changed(to.Key)
}

// put shows what the bot says, and returns its id.
func (c *chat) put(a *activity.Activity, to *room, thread, reply string) (id string, status int) {
	a = c.without(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := a.Stream()
	if a.Type == activity.Typing && stream.Type == "" {
		to.typing = time.Now().Add(typingFor)
		return c.nextID(), http.StatusAccepted
	}
	to.typing = time.Time{}
	if stream.ID != "" {
		if m := to.message(stream.ID); m != nil {
			m.Activity, m.Streaming = a, stream.Type != activity.StreamFinal
			return m.ID, http.StatusAccepted
		}
	}
	m := &message{ID: c.nextID(), Thread: thread, At: time.Now(), Activity: a, ReplyTo: reply, Streaming: a.Type == activity.Typing}
	m.ReplyTo = cmp.Or(m.ReplyTo, a.ReplyToID)
	if to.Kind == "channel" && m.Thread == "" {
		m.Thread = m.ID
	}
	m.Note = noteOf(a)
	if a.Type == activity.Message || m.Streaming {
		to.add(m)
	}
	return m.ID, http.StatusCreated
}

// noteOf is what the page says of a message of the bot.
func noteOf(a *activity.Activity) string {
	return either(a.Targeted(), "only one person sees this", "")
}

// edit changes the message that a request names, and reports whether there is one.
func (c *chat) edit(w http.ResponseWriter, r *http.Request, change func(a *activity.Activity, to *room, m *message)) bool {
	a, to, ok := c.read(w, r)
	if !ok {
		return false
	}
	c.mu.Lock()
	m := to.message(r.PathValue("id"))
	if m != nil {
		change(a, to, m)
	}
	c.mu.Unlock()
	if m == nil {
		refused(w, http.StatusNotFound, "ActivityNotFoundInConversation", "there is no such message")
		return false
	}
	c.changed(to.Key)
	return true
}

func (c *chat) update(w http.ResponseWriter, r *http.Request) {
	found := c.edit(w, r, func(a *activity.Activity, _ *room, m *message) {
		m.Activity, m.Edited, m.Streaming = c.without(a), true, false
		m.Own, m.Note = nil, noteOf(a)
	})
	if found {
		accepted(w, http.StatusOK, r.PathValue("id"))
	}
}

func (c *chat) remove(w http.ResponseWriter, r *http.Request) {
	c.edit(w, r, func(_ *activity.Activity, to *room, m *message) {
		m.Deleted = true
		if m.Streaming { // its status is over
			to.messages = slices.DeleteFunc(to.messages, func(other *message) bool { return other == m })
		}
	})
}

func (c *chat) react(w http.ResponseWriter, r *http.Request) {
	_, to, ok := c.read(w, r)
	if !ok {
		return
	}
	c.mu.Lock()
	if m := to.message(r.PathValue("id")); m != nil {
		reaction := "bot: " + r.PathValue("reaction")
		m.Reactions = slices.DeleteFunc(slices.Clone(m.Reactions), func(one string) bool { return one == reaction })
		if r.Method == http.MethodPut {
			m.Reactions = append(m.Reactions, reaction)
		}
	}
	c.mu.Unlock()
	c.changed(to.Key)
}

// create opens the personal chat of a person.
func (c *chat) create(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Members []struct {
			ID string `json:"id"`
		} `json:"members"`
		Activity json.RawMessage `json:"activity"`
	}
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		refused(w, http.StatusBadRequest, "BadArgument", "no conversation")
		return
	}
	c.mu.Lock()
	var to *room
	for _, one := range c.rooms {
		if len(wanted.Members) == 1 && one.Kind == "personal" && (one.People[0].ID == wanted.Members[0].ID || one.People[0].Directory == wanted.Members[0].ID) {
			to = one
			break
		}
	}
	c.mu.Unlock()
	if to == nil {
		refused(w, http.StatusNotFound, "BadArgument", "the page has no such person")
		return
	}
	if len(wanted.Activity) > 0 && string(wanted.Activity) != "null" {
		a := &activity.Activity{}
		if err := json.Unmarshal(wanted.Activity, a); err != nil {
			refused(w, http.StatusBadRequest, "BadArgument", "no activity")
			return
		}
		c.put(a, to, "", "")
		c.changed(to.Key)
	}
	accepted(w, http.StatusCreated, to.ID)
}

func (c *chat) members(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.room(r.PathValue("conversation"))
	if to == nil {
		refused(w, http.StatusNotFound, "ConversationNotFound", "the page has no such conversation")
		return
	}
	all := []map[string]any{}
	for _, p := range to.People {
		all = append(all, memberOf(p))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"members": all}) // the bot is gone if it fails
}

func (c *chat) member(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, id := c.room(r.PathValue("conversation")), r.PathValue("user")
	if to == nil {
		refused(w, http.StatusNotFound, "ConversationNotFound", "the page has no such conversation")
		return
	}
	for _, p := range to.People {
		if p.ID == id || p.Directory == id {
			_ = json.NewEncoder(w).Encode(memberOf(p)) // the bot is gone if it fails
			return
		}
	}
	refused(w, http.StatusNotFound, connector.NoMember, "nobody with this id is in the conversation")
}

func memberOf(p person) map[string]any {
	m := p.account()
	m["objectId"], m["tenantId"], m["userRole"], m["userPrincipalName"] = p.Directory, tenant, "user", url.PathEscape(p.Key)+"@example.com"
	return m
}
