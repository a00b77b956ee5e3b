package bottest

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

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
