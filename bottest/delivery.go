package bottest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

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
