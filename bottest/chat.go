package bottest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/activity"
)

// Chat is a conversation with the bot, as one person sees it. Its methods wait for what
// they need, and fail the test when that does not come.
type Chat struct {
	kit     *Kit
	of      *conversation
	person  string
	replica int
}

// conversation is what all chats of one conversation share.
type conversation struct {
	id       string
	kind     string
	mu       sync.Mutex
	messages []Sent
	read     int // how many of them were expected
	people   []string
}

func (c *conversation) took(s Sent) {
	if !s.Message() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, s)
}

func (c *conversation) entered(person string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if person != "" && !slices.Contains(c.people, person) {
		c.people = append(c.people, person)
	}
}

// speakers are the people whom the test had speak.
func (c *conversation) speakers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.people)
}

// allChats is one for each conversation, by their ids.
func (k *Kit) allChats() []*Chat {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*Chat
	for _, id := range slices.Sorted(maps.Keys(k.chats)) {
		all = append(all, &Chat{kit: k, of: k.chats[id], replica: 1})
	}
	return all
}

// conversation is the one with that id.
func (k *Kit) conversation(id string) *conversation {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.chats[id]
	if c == nil {
		c = &conversation{id: id}
		k.chats[id] = c
	}
	return c
}

func (k *Kit) chat(id, kind, person string) *Chat {
	of := k.conversation(id)
	of.entered(person)
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.kind == "" {
		of.kind = kind
	}
	return &Chat{kit: k, of: of, person: person, replica: 1}
}

// Personal is the chat of one person with the bot. The account of Mia is 29:mia and her id
// in the directory aad-Mia, wherever she speaks.
func (k *Kit) Personal(person string) *Chat { return k.chat("a:"+person, "personal", person) }

// Group is a group chat of that name, in which the first of the people speaks: for the
// others there is [Chat.As]. As in Teams the bot hears there what mentions it.
func (k *Kit) Group(name string, people ...string) *Chat {
	return k.chat("19:"+name+"@unq.gbl.spaces", "groupChat", first(people))
}

// Channel is a thread in a channel of a team.
func (k *Kit) Channel(name string, people ...string) *Chat {
	return k.chat("19:"+name+"@thread.tacv2;messageid=1", "channel", first(people))
}

// Conversation is one by its id and kind: "personal", "groupChat" or "channel". "": that
// which it has, or personal.
func (k *Kit) Conversation(id, kind, person string) *Chat {
	k.t.Helper()
	if !slices.Contains([]string{"", "personal", "groupChat", "channel"}, kind) {
		k.fatal(nil, "no kind of conversation %q, want personal, groupChat or channel", kind)
	}
	return k.chat(id, kind, person)
}

func first(people []string) string {
	if len(people) == 0 {
		return "Mia"
	}
	return people[0]
}

// As is the same conversation, in which another person speaks.
func (c *Chat) As(person string) *Chat {
	c.of.entered(person)
	other := *c
	other.person = person
	return &other
}

// On is the same conversation, delivered to another replica, by its number from 1 on.
func (c *Chat) On(replica int) *Chat {
	other := *c
	other.replica = replica
	return &other
}

// Say says a text, which the bot has to take. In a group or channel it hears it only if
// it was mentioned: see [Chat.Mention].
func (c *Chat) Say(text string) *Delivery {
	c.kit.t.Helper()
	return c.Deliver(Activity{"type": "message", "text": text}).Taken()
}

// Mention says a text that begins with a mention of the bot.
func (c *Chat) Mention(text string) *Delivery {
	c.kit.t.Helper()
	at := "<at>" + c.kit.cfg.Name + "</at>"
	return c.Deliver(Activity{"type": "message", "text": at + " " + text, "entities": []any{c.kit.mention(at)}}).Taken()
}

// MentionOf is the entity of a mention of the bot that stands in a text as <at>NAME</at>.
func (c *Chat) MentionOf(at string) Activity { return c.kit.mention(at) }

func (k *Kit) mention(at string) Activity {
	name := strings.TrimSuffix(strings.TrimPrefix(at, "<at>"), "</at>")
	return Activity{"type": "mention", "text": at, "mentioned": Activity{"id": BotID, "name": name}}
}

// Attach sends files without a text, by their content types.
func (c *Chat) Attach(contentTypes ...string) *Delivery {
	c.kit.t.Helper()
	var files []any
	for _, t := range contentTypes {
		files = append(files, Activity{"contentType": t, "contentUrl": c.kit.Connector.URL + "file"})
	}
	return c.Deliver(Activity{"type": "message", "attachments": files}).Taken()
}

// AddBot tells the bot that it was added to the conversation.
func (c *Chat) AddBot() *Delivery {
	c.kit.t.Helper()
	return c.members("membersAdded", BotID)
}

// Add tells the bot that people were added to the conversation.
func (c *Chat) Add(people ...string) *Delivery {
	c.kit.t.Helper()
	var ids []string
	for _, p := range people {
		ids = append(ids, userID(p))
	}
	return c.members("membersAdded", ids...)
}

// RemoveBot tells the bot that it was removed from the conversation.
func (c *Chat) RemoveBot() *Delivery {
	c.kit.t.Helper()
	return c.members("membersRemoved", BotID)
}

func (c *Chat) members(field string, ids ...string) *Delivery {
	c.kit.t.Helper()
	var members []any
	for _, id := range ids {
		members = append(members, Activity{"id": id})
	}
	return c.Deliver(Activity{"type": "conversationUpdate", field: members}).Taken()
}

// Invoke delivers an invoke and returns with its answer. There has to be one, and none that
// says that the bot is to blame: an unknown invoke, 501, is one.
func (c *Chat) Invoke(name string, value any) *Delivery {
	c.kit.t.Helper()
	return c.Deliver(Activity{"type": "invoke", "name": name, "value": value}).answered()
}

// Messages are what the bot said in the conversation so far. Who asks for them looks at all
// of them.
func (c *Chat) Messages() []Sent {
	all := c.of.said()
	c.kit.Connector.look(all...)
	return all
}

func (c *conversation) said() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.messages)
}

// Activity is an activity as JSON has it, or a part of one.
type Activity map[string]any

// fill adds what the channel says of every activity, unless it is said already.
func (c *Chat) fill(a Activity) Activity {
	full := Activity{
		"id":         c.kit.newID(),
		"channelId":  activity.Teams,
		"serviceUrl": c.kit.Connector.URL,
		"from":       Activity{"id": userID(c.person), "name": c.person, "aadObjectId": "aad-" + c.person},
		"recipient":  Activity{"id": BotID, "name": c.kit.cfg.Name},
		"conversation": Activity{
			"id": c.of.id, "conversationType": c.kind(), "isGroup": c.kind() != "personal", "tenantId": tenantIn(a),
		},
		"channelData": c.channelData(),
	}
	maps.Copy(full, a)
	maps.DeleteFunc(full, func(_ string, v any) bool { return v == nil })
	return full
}

func (c *Chat) kind() string {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return cmp.Or(c.of.kind, "personal")
}

const tenant = "tenant-1"

// tenantIn is the tenant that the activity names: one that is named in two ways gets in
// nowhere.
func tenantIn(a Activity) string {
	for _, name := range []string{"channelData", "tenant"} {
		switch part := a[name].(type) {
		case Activity:
			a = part
		case map[string]any:
			a = part
		default:
			return tenant
		}
	}
	if id, ok := a["id"].(string); ok && id != "" {
		return id
	}
	return tenant
}

func (c *Chat) channelData() Activity {
	data := Activity{"tenant": Activity{"id": tenant}}
	if c.kind() == "channel" {
		data["team"] = Activity{"id": "19:team@thread.tacv2", "name": "Team"}
		base, _, _ := strings.Cut(c.of.id, ";")
		data["channel"] = Activity{"id": base}
	}
	return data
}

// userID is the account of a person.
func userID(person string) string {
	if strings.HasPrefix(person, "29:") || person == BotID {
		return person
	}
	return "29:" + strings.ToLower(strings.ReplaceAll(person, " ", "-"))
}

// taken reports whether a status says that the bot has it.
func taken(status int) bool { return status == http.StatusOK || status == http.StatusAccepted }

// Delivery is an activity that was delivered to the bot, and how it was answered.
type Delivery struct {
	ID     string
	Status int // of HTTP; 0: there was no answer
	Body   []byte
	Took   time.Duration
	Err    error // why there was none

	chat *Chat
	sent Activity
	to   *process
}

// newID is an id that no activity has had, in a Redis that outlives the test either.
func (k *Kit) newID() string { return fmt.Sprint(k.idPrefix, k.ids.Add(1)) }

// Deliver delivers any activity, with what a channel says of each filled in: an id, who
// speaks to whom, where. A field that is nil is left out. It does not look at the answer:
// [Delivery.Taken] does.
func (c *Chat) Deliver(a Activity) *Delivery {
	c.kit.t.Helper()
	return c.post(c.fill(a), "")
}

// post delivers an activity, with a remark for the story.
func (c *Chat) post(full Activity, remark string) *Delivery {
	c.kit.t.Helper()
	p := c.kit.process(c.replica)
	if p == nil {
		c.kit.fatal(c, "there is no replica %d", c.replica)
	}
	id, _ := full["id"].(string)
	d := &Delivery{ID: id, chat: c, sent: full, to: p}
	raw, err := json.Marshal(full)
	if err != nil {
		c.kit.fatal(c, "the activity is not to be written as JSON: %v", err)
	}
	of := Of{Conversation: c.of.id, Activity: id}
	text := describeActivity(full)
	if c.kind() != "personal" && full["type"] == "message" && full["text"] != nil && full["entities"] == nil {
		remark += " (does not mention the bot)"
	}
	c.kit.note(entry{Of: of, kind: "said", who: c.person, text: text + remark})
	began := time.Now()
	d.Status, d.Body, d.Err = c.kit.send(c.kit.t.Context(), p, raw)
	d.Took = time.Since(began)
	c.kit.note(entry{Of: of, kind: "status", text: d.String()})
	return d
}

// String says how it was answered.
func (d *Delivery) String() string {
	if d.Err != nil {
		return "no answer: " + d.Err.Error()
	}
	return fmt.Sprintf("%d %s", d.Status, d.Body)
}

// Taken fails the test unless the bot took the activity.
func (d *Delivery) Taken() *Delivery {
	k := d.chat.kit
	k.t.Helper()
	if !taken(d.Status) {
		k.fatal(d.chat, "the activity was not taken: %s", d)
	}
	return d
}

// answered fails the test if there is no answer, or one that the bot is to blame for. A
// process that died meanwhile owes none.
func (d *Delivery) answered() *Delivery {
	k := d.chat.kit
	k.t.Helper()
	died := d.to.dead.Load() && d.Err == nil
	if !died && (d.Status == 0 || d.Status >= http.StatusInternalServerError && d.Status != http.StatusNotImplemented) {
		k.fatal(d.chat, "the bot did not answer this: %s", d)
	}
	return d
}

// Again delivers the same activity once more, as a channel does that got no answer in
// time; with [Chat.On] to another replica.
func (d *Delivery) Again(to *Chat) *Delivery {
	to.kit.t.Helper()
	return to.post(d.sent, " (again)")
}

// Edit tells the bot that the message was edited.
func (d *Delivery) Edit(text string) *Delivery {
	d.chat.kit.t.Helper()
	return d.chat.Deliver(Activity{"type": "messageUpdate", "id": d.ID, "text": text, "channelData": d.chat.event("editMessage")}).Taken()
}

// Delete tells the bot that the message was deleted.
func (d *Delivery) Delete() *Delivery {
	d.chat.kit.t.Helper()
	return d.chat.Deliver(Activity{"type": "messageDelete", "id": d.ID, "channelData": d.chat.event("softDeleteMessage")}).Taken()
}

func (c *Chat) event(name string) Activity {
	data := c.channelData()
	data["eventType"] = name
	return data
}

// React tells the bot of a reaction, such as like, to what it said last.
func (c *Chat) React(kind string) *Delivery {
	c.kit.t.Helper()
	return c.Deliver(Activity{"type": "messageReaction", "replyToId": c.last().ID, "reactionsAdded": []any{Activity{"type": kind}}}).Taken()
}

// last is what the bot said last.
func (c *Chat) last() Sent {
	c.kit.t.Helper()
	all := c.of.said()
	if len(all) == 0 {
		c.kit.fatal(c, "the bot has said nothing yet")
	}
	c.kit.Connector.look(all[len(all)-1])
	return all[len(all)-1]
}

// Decode reads the body of the answer.
func (d *Delivery) Decode(into any) {
	d.chat.kit.t.Helper()
	if err := json.Unmarshal(d.Body, into); err != nil {
		d.chat.kit.fatal(d.chat, "the answer is %s: %v", d, err)
	}
}

// Shown is the text that a click on a card was answered with, and shows to who clicked: that
// of a message or of an error. It is "" where there is none, as with a card that takes the
// place of the one that was clicked.
func (d *Delivery) Shown() string {
	var body struct {
		Value json.RawMessage `json:"value"`
		Error fault           `json:"error"`
	}
	_ = json.Unmarshal(d.Body, &body) // another answer shows nothing
	var text string
	if json.Unmarshal(body.Value, &text) == nil {
		return text
	}
	said := body.Error
	if said == (fault{}) && json.Unmarshal(body.Value, &said) != nil {
		return ""
	}
	return cmp.Or(said.Message, said.Code)
}

// fault is how failures are told.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// send posts an activity to the process as a channel does.
func (k *Kit) send(ctx context.Context, p *process, raw []byte) (status int, body []byte, err error) {
	transport := &http.Transport{DialContext: k.wires.dial, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if p.dead.Load() {
		return 0, nil, fmt.Errorf("replica %d is dead", p.replica)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

func describeActivity(a Activity) string {
	text, _ := a["text"].(string)
	kind, _ := a["type"].(string)
	if kind == "message" && text != "" {
		return text
	}
	parts := Activity{}
	for _, field := range []string{"name", "action", "text", "value", "membersAdded", "membersRemoved", "reactionsAdded", "attachments"} {
		if v, ok := a[field]; ok {
			parts[field] = v
		}
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "(" + kind + ")"
	}
	return fmt.Sprintf("(%s %s)", kind, raw)
}

// Expect takes the next message of the bot in the conversation and compares its text. It is
// for messages with one: a card is for [Chat.ExpectCard].
func (c *Chat) Expect(want string) Sent {
	c.kit.t.Helper()
	got := c.next("%q", want)
	switch {
	case got.Activity.Text == "" && c.card(got) != nil:
		c.kit.fail(c, "the bot said a card, want %q: for cards there is ExpectCard\n%s", want, quote(got))
	case got.Activity.Text != want:
		c.kit.fail(c, "the bot said %s, want %q", quote(got), want)
	}
	return got
}

// ExpectMatch takes the next message and matches its text with the regular expression.
func (c *Chat) ExpectMatch(expression string) Sent {
	c.kit.t.Helper()
	want, err := regexp.Compile(expression)
	if err != nil {
		c.kit.fatal(c, "%v", err)
	}
	got := c.next("what matches %s", expression)
	if !want.MatchString(got.Activity.Text) {
		c.kit.fail(c, "the bot said %s, want what matches %s", quote(got), expression)
	}
	return got
}

// Next takes the next message, whatever it is.
func (c *Chat) Next() Sent {
	c.kit.t.Helper()
	return c.next("anything")
}

// ExpectNothing fails the test if the bot, once it has nothing left to do, has said
// something that nobody expected yet.
func (c *Chat) ExpectNothing() {
	c.kit.t.Helper()
	if c.kit.foreign.Load() {
		c.kit.fatal(c, "ExpectNothing is for bots that take their Store from the Parts: of others nobody knows when they have nothing left to do")
	}
	c.kit.settle(nil)
	if got, ok := c.take(); ok {
		c.kit.fail(c, "the bot said %s, want nothing", quote(got))
	}
}

// next takes the next message. It ends the test when none comes.
func (c *Chat) next(want string, args ...any) Sent {
	c.kit.t.Helper()
	var got Sent
	if !c.kit.settle(func() (ok bool) { got, ok = c.take(); return ok }) {
		c.kit.fatal(c, "the bot said nothing more, want "+want+"%s", append(args, c.elsewhere())...)
	}
	return got
}

// elsewhere says why nothing may have come.
func (c *Chat) elsewhere() string {
	var s strings.Builder
	for _, sent := range c.kit.Connector.overlooked(c.of.id) {
		fmt.Fprintf(&s, "\nin %s it said %s, which nobody expected", sent.To, quote(sent))
	}
	if c.kit.foreign.Load() {
		s.WriteString("\nthe bot does not take its Store from the Parts (begin its Config with parts.Bot): does it answer through the kit's Channel?")
	}
	return s.String()
}

func (c *Chat) take() (Sent, bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.read == len(c.of.messages) {
		return Sent{}, false
	}
	got := c.of.messages[c.of.read]
	c.of.read++
	c.kit.Connector.look(got)
	return got, true
}

func quote(s Sent) string {
	raw, err := json.Marshal(describeSent(s))
	if err != nil {
		return s.Activity.Text
	}
	return string(raw)
}

// Card is a card that the bot sent.
type Card struct {
	// JSON is the card, for searching.
	JSON string

	chat    *Chat
	message Sent
	content map[string]any
}

// ExpectCard takes the next message, which has to be a card that shows all these texts.
func (c *Chat) ExpectCard(texts ...string) *Card {
	c.kit.t.Helper()
	got := c.next("a card")
	card := c.card(got)
	if card == nil {
		c.kit.fatal(c, "the bot said %s, want a card", quote(got))
	}
	for _, text := range texts {
		if !strings.Contains(card.JSON, text) {
			c.kit.fail(c, "the card does not show %q: %s", text, card.JSON)
		}
	}
	return card
}

// Card reads the card of a message that the bot sent in the conversation; nil: it has
// none.
func (c *Chat) Card(of Sent) *Card { return c.card(of) }

func (c *Chat) card(of Sent) *Card {
	for _, a := range of.Activity.Attachments {
		if a.ContentType != activity.CardContentType {
			continue
		}
		var content map[string]any
		if json.Unmarshal(a.Content, &content) == nil {
			return &Card{string(a.Content), c, of, content}
		}
	}
	return nil
}

// Press clicks on a button of the last card that the bot sent, by its title.
func (c *Chat) Press(title string) *Delivery {
	c.kit.t.Helper()
	for _, sent := range slices.Backward(c.of.said()) {
		if card := c.card(sent); card != nil {
			c.kit.Connector.look(sent)
			return card.Press(title)
		}
	}
	c.kit.fatal(c, "the bot has sent no card yet")
	return nil
}

// As is the card as another person sees it.
func (c *Card) As(person string) *Card {
	other := *c
	other.chat = c.chat.As(person)
	return &other
}

// Press clicks on the button with that title. Inputs are the values of the card's inputs:
// an id, its value, an id…. The bot has to answer: see [Chat.Invoke].
func (c *Card) Press(title string, inputs ...any) *Delivery {
	k := c.chat.kit
	k.t.Helper()
	for _, button := range c.Buttons() {
		if button["title"] != title {
			continue
		}
		click, err := c.Click(button, inputs...)
		if err != nil {
			k.fatal(c.chat, "%v", err)
		}
		return c.chat.Deliver(click).answered()
	}
	k.fatal(c.chat, "no button %q in %s", title, c.JSON)
	return nil
}

// ID is the id of the message with the card.
func (c *Card) ID() string { return c.message.ID }

// Buttons are the actions of the card, as they are in its JSON: those of its bar and then
// those in its body, with what lies in containers, action sets and cards that a button shows.
func (c *Card) Buttons() (buttons []map[string]any) {
	walk(c.content, func(part map[string]any) {
		if kind, _ := part["type"].(string); strings.HasPrefix(kind, "Action.") {
			buttons = append(buttons, part)
		}
	})
	return buttons
}

// Click is the activity of a click on one of the card's buttons: an invoke or, for an
// Action.Submit, a message. The error is that of a button which sends nothing to the bot, and
// of inputs which are no ids of the card's with values.
func (c *Card) Click(button map[string]any, inputs ...any) (Activity, error) {
	if kind := button["type"]; kind != "Action.Execute" && kind != "Action.Submit" {
		return nil, fmt.Errorf("the button %q is of type %v, which sends nothing to the bot: want Action.Execute or Action.Submit", button["title"], kind)
	}
	data := map[string]any{}
	if of, ok := button["data"].(map[string]any); ok {
		maps.Copy(data, of)
	}
	for i := 0; i < len(inputs); i += 2 {
		id, ok := inputs[i].(string)
		if !ok || i+1 == len(inputs) {
			return nil, fmt.Errorf("inputs of a card are ids with values, not %v", inputs)
		}
		if known := c.inputs(); !slices.Contains(known, id) {
			return nil, fmt.Errorf("the card has no input %q, it has %q", id, known)
		}
		data[id] = inputs[i+1]
	}
	if button["type"] == "Action.Submit" {
		return Activity{"type": "message", "replyToId": c.message.ID, "value": data}, nil
	}
	return Activity{
		"type": "invoke", "name": "adaptiveCard/action", "replyToId": c.message.ID,
		"value": Activity{"action": Activity{"type": button["type"], "verb": button["verb"], "id": button["id"], "data": data}, "trigger": "manual"},
	}, nil
}

// inputs are the ids of the card's inputs.
func (c *Card) inputs() (ids []string) {
	walk(c.content, func(part map[string]any) {
		kind, _ := part["type"].(string)
		if id, ok := part["id"].(string); ok && strings.HasPrefix(kind, "Input.") {
			ids = append(ids, id)
		}
	})
	return ids
}

// notSeen are the fields of a card in which nothing is for people to see: what a button sends,
// what takes the place of an element that is not understood, and what a card renews itself with.
var notSeen = []string{"data", "fallback", "refresh"}

// walk visits all objects in a part of a card that people see, the outer ones first.
func walk(part any, visit func(map[string]any)) {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			walk(p, visit)
		}
	case map[string]any:
		visit(part)
		for _, name := range slices.Sorted(maps.Keys(part)) {
			if !slices.Contains(notSeen, name) {
				walk(part[name], visit)
			}
		}
	}
}
