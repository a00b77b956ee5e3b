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
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/state"
)

// Chat is a conversation with the bot, as one person sees it. Its methods wait for what they need,
// and fail the test if it does not come.
type Chat struct {
	kit     *Kit
	of      *conversation
	person  string
	replica int
}

// conversation is shared by all chats of one conversation. The kit's lock guards it.
type conversation struct {
	id, kind string
	read     int // how many of the bot's messages were expected
}

func (k *Kit) chat(id, kind, person string) *Chat {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.conversations[id]
	if of == nil {
		of = &conversation{id: id, kind: cmp.Or(kind, "personal")}
		k.conversations[id] = of
	}
	return (&Chat{kit: k, of: of, replica: 1}).as(person)
}

// Personal is one person's chat with the bot. Mia's account is 29:mia and her directory id aad-Mia,
// in every conversation.
func (k *Kit) Personal(person string) *Chat { return k.chat("a:"+person, "personal", person) }

// Group is a group chat with that name, in which the first person speaks; use [Chat.As] for the
// others. As in Teams, the bot only receives messages there that mention it.
func (k *Kit) Group(name string, people ...string) *Chat {
	return k.chat("19:"+name+"@unq.gbl.spaces", "groupChat", first(people))
}

// Channel is a thread in a channel of a team. What the bot posts beside it is in [Kit.Conversation] with
// "19:" + name + "@thread.tacv2" and "channel".
func (k *Kit) Channel(name string, people ...string) *Chat {
	return k.chat("19:"+name+"@thread.tacv2;messageid=1", "channel", first(people))
}

// Conversation is a conversation by its id and kind: "personal", "groupChat" or "channel". "": the
// kind it already has, or personal.
func (k *Kit) Conversation(id, kind, person string) *Chat {
	k.t.Helper()
	if !slices.Contains([]string{"", "personal", "groupChat", "channel"}, kind) {
		k.fatal("no kind of conversation %q, want personal, groupChat or channel", kind)
	}
	return k.chat(id, kind, person)
}

func first(people []string) string {
	if len(people) == 0 {
		return "Mia"
	}
	return people[0]
}

// As is the same conversation with another person speaking.
func (c *Chat) As(person string) *Chat {
	c.kit.mu.Lock()
	defer c.kit.mu.Unlock()
	return c.as(person)
}

func (c *Chat) as(person string) *Chat {
	other := *c
	other.person = person
	if person != "" {
		c.kit.people[person] = true
	}
	return &other
}

// On is the same conversation, delivered to another replica, numbered from 1.
func (c *Chat) On(replica int) *Chat {
	other := *c
	other.replica = replica
	return &other
}

// Say sends a text, which the bot must accept. In a group or channel the bot only gets it if it is
// mentioned: see [Chat.Mention].
func (c *Chat) Say(text string) *Delivery {
	c.kit.t.Helper()
	return c.Deliver(map[string]any{"type": "message", "text": text}).Taken()
}

// Mention sends a text that begins with a mention of the bot.
func (c *Chat) Mention(text string) *Delivery {
	c.kit.t.Helper()
	at := "<at>" + c.kit.cfg.Name + "</at>"
	return c.Deliver(map[string]any{"type": "message", "text": at + " " + text, "entities": []any{c.MentionOf(at)}}).Taken()
}

// MentionOf is the entity for a mention of the bot that appears in a text as <at>NAME</at>.
func (c *Chat) MentionOf(at string) map[string]any {
	name := strings.TrimSuffix(strings.TrimPrefix(at, "<at>"), "</at>")
	return map[string]any{"type": "mention", "text": at, "mentioned": map[string]any{"id": botID, "name": name}}
}

// AddBot tells the bot that it was added to the conversation.
func (c *Chat) AddBot() *Delivery {
	c.kit.t.Helper()
	return c.members(botID)
}

// Add tells the bot that people were added to the conversation.
func (c *Chat) Add(people ...string) *Delivery {
	c.kit.t.Helper()
	var ids []string
	for _, p := range people {
		ids = append(ids, userID(p))
	}
	return c.members(ids...)
}

func (c *Chat) members(ids ...string) *Delivery {
	c.kit.t.Helper()
	var members []any
	for _, id := range ids {
		members = append(members, map[string]any{"id": id})
	}
	return c.Deliver(map[string]any{"type": "conversationUpdate", "membersAdded": members}).Taken()
}

// Invoke delivers an invoke and returns its answer. It fails the test if there is no answer, or one
// with a 5xx status other than 501 for an unknown invoke.
func (c *Chat) Invoke(name string, value any) *Delivery {
	c.kit.t.Helper()
	return c.Deliver(map[string]any{"type": "invoke", "name": name, "value": value}).answered()
}

// Messages returns what the bot has said in the conversation so far. All of it then counts as
// looked at.
func (c *Chat) Messages() []Sent {
	all := c.kit.Connector.said(c.of.id)
	c.kit.Connector.look(all...)
	for i := range all {
		all[i].chat = c
	}
	return all
}

// Conversation returns the conversation's stored state once the bot has nothing left to do, for
// [state.Of] and [state.At]. A value of another type fails the test at its end.
func (c *Chat) Conversation() *state.Scope { return c.kept(conversationKey(c.of.id)) }

// User returns the stored state of the person who speaks, as [Chat.Conversation] does.
func (c *Chat) User() *state.Scope { return c.kept(userKey(c.person)) }

func (c *Chat) kept(key state.Key) *state.Scope {
	c.kit.t.Helper()
	c.kit.Settle()
	scope := c.kit.load(key)
	c.kit.t.Cleanup(func() {
		if err := scope.Err(); err != nil {
			c.fail("read what the bot keeps: %v", err)
		}
	})
	return scope
}

// Keep changes the stored state of the conversation and of the person, before or between turns.
func (c *Chat) Keep(change func(conversation, user *state.Scope)) {
	c.kit.t.Helper()
	conversation, user := c.kit.load(conversationKey(c.of.id)), c.kit.load(userKey(c.person))
	change(conversation, user)
	if err := c.kit.watcher.Save(c.kit.t.Context(), conversation, user); err != nil {
		c.fatal("keep: %v", err)
	}
}

// fill adds the fields that the channel sets on every activity, unless they are set.
func (c *Chat) fill(a map[string]any) map[string]any {
	full := map[string]any{
		"id":         fmt.Sprint("activity-", c.kit.ids.Add(1)),
		"channelId":  activity.Teams,
		"serviceUrl": c.kit.Connector.URL,
		"from":       map[string]any{"id": userID(c.person), "name": c.person, "aadObjectId": "aad-" + c.person},
		"recipient":  map[string]any{"id": botID, "name": c.kit.cfg.Name},
		"conversation": map[string]any{
			"id": c.of.id, "conversationType": c.of.kind, "isGroup": c.of.kind != "personal", "tenantId": tenantIn(a),
		},
		"channelData": c.channelData(),
	}
	maps.Copy(full, a)
	maps.DeleteFunc(full, func(_ string, v any) bool { return v == nil })
	return full
}

const tenant = "tenant-1"

// tenantIn is the tenant in the activity: an activity that names two different tenants is rejected.
func tenantIn(a map[string]any) string {
	for _, name := range []string{"channelData", "tenant"} {
		part, ok := a[name].(map[string]any)
		if !ok {
			return tenant
		}
		a = part
	}
	if id, ok := a["id"].(string); ok && id != "" {
		return id
	}
	return tenant
}

func (c *Chat) channelData() map[string]any {
	data := map[string]any{"tenant": map[string]any{"id": tenant}}
	if c.of.kind == "channel" {
		data["team"] = map[string]any{"id": "19:team@thread.tacv2", "name": "Team"}
		base, _, _ := strings.Cut(c.of.id, ";")
		data["channel"] = map[string]any{"id": base}
	}
	return data
}

func userID(person string) string {
	if strings.HasPrefix(person, "29:") || person == botID {
		return person
	}
	return "29:" + strings.ToLower(strings.ReplaceAll(person, " ", "-"))
}

// Delivery is an activity delivered to the bot, and the response.
type Delivery struct {
	ID     string
	Status int // HTTP status; 0: there was no response
	Body   []byte
	Took   time.Duration

	err  error // why there was none
	chat *Chat
	sent map[string]any
	to   *process
}

// Deliver delivers any activity and adds what a channel adds: an id, who speaks to whom, where. A
// nil field is left out. Deliver does not check the response: [Delivery.Taken] does.
func (c *Chat) Deliver(a map[string]any) *Delivery {
	c.kit.t.Helper()
	return c.post(c.fill(a), "")
}

// post delivers an activity, with a remark for the story.
func (c *Chat) post(full map[string]any, remark string) *Delivery {
	c.kit.t.Helper()
	id, _ := full["id"].(string)
	d := &Delivery{ID: id, chat: c, sent: full, to: c.kit.process(c.replica)}
	raw, err := json.Marshal(full)
	if err != nil {
		c.fatal("the activity is not to be written as JSON: %v", err)
	}
	of := turnid.Of{Conversation: c.of.id, Activity: id}
	if c.of.kind != "personal" && full["type"] == "message" && full["text"] != nil && full["entities"] == nil {
		remark += " (does not mention the bot)"
	}
	c.kit.story.note(of, c.person, describe(full)+remark)
	began := time.Now()
	d.err = d.send(c.kit.t.Context(), raw)
	d.Took = time.Since(began)
	if answer := d.String(); answer != "200 " && answer != "200 {}" {
		c.kit.story.note(of, "  HTTP", answer)
	}
	return d
}

func describe(a map[string]any) string {
	text, _ := a["text"].(string)
	if a["type"] == "message" && text != "" {
		return text
	}
	parts := map[string]any{}
	for _, field := range []string{"name", "action", "text", "value", "membersAdded", "membersRemoved", "reactionsAdded", "attachments"} {
		if v, ok := a[field]; ok {
			parts[field] = v
		}
	}
	raw, _ := json.Marshal(parts) // it is part of valid JSON
	return fmt.Sprintf("(%v %s)", a["type"], raw)
}

// send posts the activity as a channel does.
func (d *Delivery) send(ctx context.Context, raw []byte) error {
	if d.to.dead.Load() {
		return fmt.Errorf("replica %d is dead", d.to.replica)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.to.url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	transport := &http.Transport{DialContext: d.chat.kit.network.dial, DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	d.Status = res.StatusCode
	d.Body, err = io.ReadAll(res.Body)
	return err
}

// String describes the response.
func (d *Delivery) String() string {
	if d.err != nil {
		return "no answer: " + d.err.Error()
	}
	return fmt.Sprintf("%d %s", d.Status, d.Body)
}

// Taken fails the test unless the bot accepted the activity.
func (d *Delivery) Taken() *Delivery {
	k := d.chat.kit
	k.t.Helper()
	if d.Status != http.StatusOK && d.Status != http.StatusAccepted {
		d.chat.fatal("the activity was not taken: %s", d)
	}
	return d
}

// answered fails the test if there is no response, or a 5xx status other than 501. A process that
// died meanwhile need not respond.
func (d *Delivery) answered() *Delivery {
	k := d.chat.kit
	k.t.Helper()
	died := d.to.dead.Load() && d.err == nil
	if !died && (d.Status == 0 || d.Status >= http.StatusInternalServerError && d.Status != http.StatusNotImplemented) {
		d.chat.fatal("the bot did not answer this: %s", d)
	}
	return d
}

// Again delivers the same activity once more, as a channel does after a timeout; use [Chat.On] for
// another replica.
func (d *Delivery) Again(to *Chat) *Delivery {
	to.kit.t.Helper()
	return to.post(d.sent, " (again)")
}

// Edit tells the bot that the message was edited.
func (d *Delivery) Edit(text string) *Delivery {
	d.chat.kit.t.Helper()
	return d.chat.Deliver(map[string]any{"type": "messageUpdate", "id": d.ID, "text": text, "channelData": d.chat.event("editMessage")}).Taken()
}

// Delete tells the bot that the message was deleted.
func (d *Delivery) Delete() *Delivery {
	d.chat.kit.t.Helper()
	return d.chat.Deliver(map[string]any{"type": "messageDelete", "id": d.ID, "channelData": d.chat.event("softDeleteMessage")}).Taken()
}

func (c *Chat) event(name string) map[string]any {
	data := c.channelData()
	data["eventType"] = name
	return data
}

// React tells the bot about a reaction, such as like, to its last message.
func (c *Chat) React(kind string) *Delivery {
	c.kit.t.Helper()
	all := c.Messages()
	if len(all) == 0 {
		c.fatal("the bot has said nothing yet")
	}
	return c.Deliver(map[string]any{"type": "messageReaction", "replyToId": all[len(all)-1].ID, "reactionsAdded": []any{map[string]any{"type": kind}}}).Taken()
}

// Decode decodes the response body.
func (d *Delivery) Decode(into any) {
	d.chat.kit.t.Helper()
	if err := json.Unmarshal(d.Body, into); err != nil {
		d.chat.fatal("the answer is %s: %v", d, err)
	}
}

// Shown is the text that the answer to a card click shows to the person who clicked: a message or
// an error. It is "" if there is none, for example if a new card replaces the clicked one.
func (d *Delivery) Shown() string {
	type fault struct{ Code, Message string }
	var body struct {
		Value json.RawMessage `json:"value"`
		Error fault           `json:"error"`
	}
	_ = json.Unmarshal(d.Body, &body) // another answer shows nothing
	var text string
	if json.Unmarshal(body.Value, &text) == nil {
		return text
	}
	_ = json.Unmarshal(body.Value, &body.Error) // may be present too
	return cmp.Or(body.Error.Message, body.Error.Code)
}

// Expect takes the bot's next message in the conversation and compares its text, without the spaces that
// single line breaks get for Teams. Use [Chat.ExpectCard] for a card.
func (c *Chat) Expect(want string) Sent {
	c.kit.t.Helper()
	got := c.next(strconv.Quote(want))
	switch {
	case got.Activity.Text == "" && got.Card() != "":
		c.fail("the bot said a card, want %q: for cards there is ExpectCard\n%s", want, got.line())
	case markdown.Seen(got.Activity.Text) != markdown.Seen(want):
		c.fail("the bot said %q, want %q", got.line(), want)
	}
	return got
}

// ExpectMatch takes the next message and matches its text with the regular expression.
func (c *Chat) ExpectMatch(expression string) Sent {
	c.kit.t.Helper()
	want, err := regexp.Compile(expression)
	if err != nil {
		c.fatal("%v", err)
	}
	got := c.next("what matches " + expression)
	if !want.MatchString(got.Activity.Text) {
		c.fail("the bot said %q, want what matches %s", got.line(), expression)
	}
	return got
}

// Next takes the next message, whatever it is.
func (c *Chat) Next() Sent {
	c.kit.t.Helper()
	return c.next("anything")
}

// ExpectNothing fails the test if the bot, once it has nothing left to do, has sent a message that
// was not expected yet.
func (c *Chat) ExpectNothing() {
	c.kit.t.Helper()
	c.kit.Settle()
	if got, ok := c.take(); ok {
		c.fail("the bot said %q, want nothing", got.line())
	}
}

// next takes the next message. It ends the test if none comes.
func (c *Chat) next(want string) Sent {
	c.kit.t.Helper()
	var got Sent
	if !c.kit.Await(func() (ok bool) { got, ok = c.take(); return ok }) {
		elsewhere := c.kit.Connector.overlooked(c.of.id)
		c.fatal("the bot said nothing more, want %s", strings.Join(append([]string{want}, elsewhere...), "\n"))
	}
	return got
}

func (c *Chat) take() (Sent, bool) {
	said := c.kit.Connector.said(c.of.id)
	c.kit.mu.Lock()
	defer c.kit.mu.Unlock()
	if c.of.read >= len(said) {
		return Sent{}, false
	}
	got := said[c.of.read]
	got.chat = c
	c.of.read++
	c.kit.Connector.look(got)
	return got, true
}

// fail is [Kit.fail] with what happened in the conversation.
func (c *Chat) fail(format string, args ...any) {
	c.kit.t.Helper()
	c.kit.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), c.kit.explain(c.of.id))
}

// fatal is like fail and ends the test.
func (c *Chat) fatal(format string, args ...any) {
	c.kit.t.Helper()
	c.kit.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), c.kit.explain(c.of.id))
}

// ExpectCard takes the next message, which must be a card that shows all these texts.
func (c *Chat) ExpectCard(texts ...string) Sent {
	c.kit.t.Helper()
	got := c.next("a card")
	card := got.Card()
	if card == "" {
		c.fatal("the bot said %q, want a card", got.line())
	}
	for _, text := range texts {
		if !strings.Contains(card, text) {
			c.fail("the card does not show %q: %s", text, card)
		}
	}
	return got
}

// Press clicks a button of the bot's last card, as it looks now, by its title.
func (c *Chat) Press(title string) *Delivery {
	c.kit.t.Helper()
	for _, card := range slices.Backward(c.kit.Connector.cards(c.of.id)) {
		c.kit.Connector.look(card)
		card.chat = c
		return card.Press(title)
	}
	c.fatal("the bot has sent no card yet")
	return nil
}

// Approve approves what the newest card asks on which the person can. It waits for one. As with all that people press, a
// card looks as the bot last updated it.
func (c *Chat) Approve() *Delivery {
	c.kit.t.Helper()
	return c.decide("planbot/approve")
}

// Reject is [Chat.Approve] for a rejection. Who asked takes it back with that.
func (c *Chat) Reject() *Delivery {
	c.kit.t.Helper()
	return c.decide("planbot/reject")
}

func (c *Chat) decide(verb string) *Delivery {
	c.kit.t.Helper()
	var click map[string]any
	asked := c.kit.Await(func() bool {
		for _, card := range slices.Backward(c.kit.Connector.cards(c.of.id)) {
			for _, button := range card.Buttons() {
				if button["verb"] == verb {
					c.kit.Connector.look(card)
					click, _ = card.Click(button) // it has a verb
					return true
				}
			}
		}
		return false
	})
	if !asked {
		c.fatal("%s is not asked to decide", c.person)
	}
	return c.Deliver(click).answered()
}
