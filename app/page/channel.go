package page

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1" // which keeps fields that nobody knows, see [activity.Activity]
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// This file is the page as a channel: how activities reach the bot, and the connector that the bot
// answers to.

// connectorPath is where the connector is, before its secret.
const connectorPath = "/dev/channel/"

// filesPath is where the files are that people sent, behind the secret.
const filesPath = "files/"

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
	hidden := c.hide.Replace(string(raw))
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

// thread is the thread in the id of a conversation.
func thread(conversation string) string {
	_, id, _ := strings.Cut(conversation, ";messageid=")
	return id
}

// take takes what the bot says.
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
	if a.Targeted() {
		m.Note = "only one person sees this"
	}
	if a.Type == activity.Message || m.Streaming {
		to.add(m)
	}
	return m.ID, http.StatusCreated
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
