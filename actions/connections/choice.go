package connections

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/bm25"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// FindActions is the name of the action with which a model finds actions, see [Choice].
const FindActions = "findActions"

const (
	// A model is offered all actions if there are no more than these, and definitions of no more tokens.
	// The same limits hold for those that it has found.
	maxOffered = 40
	maxTokens  = 8000

	maxUsed  = 3 // actions used last that stay offered
	foundFor = 3 // turns after the one in which an action was found
	maxHits  = 8 // of one search

	offerWithin = 10 * time.Second // how long a turn waits for connections

	maxSummary = 200 // characters
	maxNote    = 300
	maxLine    = 200 // of a description in the answer to a search
)

// Choice offers the actions of connections to models. As long as those of a turn and the bot's own are at
// most 40, and their definitions at most 8,000 tokens, it offers all of them. Otherwise a model reads one
// line for each connection and finds what it needs with the action findActions: what that finds can be
// planned from then on and in the next three turns of the conversation. The three actions of connections
// that the conversation used last stay offered, too.
//
// A connection that does not answer within ten seconds offers nothing in that turn. Once it is registered,
// a Choice is safe for concurrent use.
type Choice struct {
	connections         []actions.Connection
	lead                []string // of the line about each
	find                *actions.Action
	own                 *actions.Registry
	ownBytes, ownTokens func() int
	count               func(metric, label string)

	mu    sync.Mutex
	known *known

	hidden sync.Map // names of actions of connections that the log has named
}

var _ actions.Extension = (*Choice)(nil)

// NewChoice makes a choice of the actions of all. count is told of searches for actions, action_searches_total with
// found or nothing, and of plans with an action that was not offered, action_misses_total; nil: nobody is. The
// error lists every fault: a connection that is nil, a key that is wrong or taken.
func NewChoice(all []actions.Connection, count func(metric, label string)) (*Choice, error) {
	c := &Choice{connections: slices.Clone(all), own: actions.New(), count: count}
	if count == nil {
		c.count = func(string, string) {}
	}
	c.ownBytes = sync.OnceValue(func() int { return sum(c.own.All(), bytesOf) })
	c.ownTokens = sync.OnceValue(func() int { return sum(c.own.All(), tokensOf) })
	var faults []error
	seen := map[string]bool{}
	for i, connection := range c.connections {
		if connection == nil {
			faults = append(faults, fmt.Errorf("connection %d is nil", i+1))
			continue
		}
		key := connection.Key()
		if faults = append(faults, CheckKey(key)); seen[key] {
			faults = append(faults, fmt.Errorf("two connections have the key %q", key))
		}
		seen[key] = true
		lead := "\n- " + key
		if summary := strings.TrimRight(spelling.OneLine(connection.Summary(), maxSummary), "."); summary != "" {
			lead += ": " + summary
		}
		c.lead = append(c.lead, lead)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("choice of actions: %w", err)
	}
	c.find = actions.Add(actions.New(), FindActions, "Finds actions of other services. Those it finds can be planned from then on", c.search,
		actions.StateOnly, actions.ReturnsData)
	return c, nil
}

// Register makes r find the actions of the connections, and findActions, see
// [actions.Registry.AddSource]. The actions of r are the bot's own. Call it once, before the first turn.
// It returns an error if r has an action findActions.
func (c *Choice) Register(r *actions.Registry) error {
	if _, taken := r.Lookup(FindActions); taken {
		return fmt.Errorf("register a choice of actions: the name %s is taken", FindActions)
	}
	c.own = r
	r.AddSource(func() *actions.Registry { return c.current().registry })
	r.OnReset(func(turn *actions.Turn) { turn.Thread.Remove(new(foundActions).StateName()) })
	return nil
}

// known are the actions that the connections know at one time. It never changes.
type known struct {
	from     []*actions.Registry // by connection
	version  int
	registry *actions.Registry // with findActions
	all      []definition
	at       map[string]int // index in all, by name
	index    func() *bm25.Index
}

// definition is an action of a connection.
type definition struct {
	*actions.Action
	connection    int
	bytes, tokens func() int // of what models are told
}

// current returns what the connections know now. It does not block.
func (c *Choice) current() *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.known
	same := old != nil
	for i := 0; same && i < len(c.connections); i++ {
		same = c.connections[i].Actions() == old.from[i]
	}
	if same {
		return old
	}
	k := &known{version: 1, at: map[string]int{}}
	if old != nil {
		k.version = old.version + 1
	}
	var all []*actions.Action
	for i, connection := range c.connections {
		registry := connection.Actions()
		k.from = append(k.from, registry)
		for _, a := range registry.All() {
			if _, taken := k.at[a.Name]; taken {
				continue // keys differ, so no two connections have one name
			}
			k.at[a.Name] = len(k.all)
			all = append(all, a)
			k.all = append(k.all, definition{
				a, i, sync.OnceValue(func() int { return bytesOf(a) }), sync.OnceValue(func() int { return tokensOf(a) }),
			})
		}
	}
	k.registry, _ = actions.New().With(append(all, c.find)...) // each name is there once
	k.index = sync.OnceValue(func() *bm25.Index {
		return bm25.New(len(k.all), func(i int) []string {
			return documentOf(c.connections[k.all[i].connection].Key(), k.all[i].Action)
		})
	})
	c.known = k
	return k
}

// told is what a model is told of an action.
func told(a *actions.Action) (name, description, schema string) {
	raw, _ := json.Marshal(a.ForModels()) // it was marshalled when the action was added
	return a.Name, a.Description, string(raw)
}

func bytesOf(a *actions.Action) int {
	name, description, schema := told(a)
	return len(name) + len(description) + len(schema)
}

func tokensOf(a *actions.Action) int { return prompts.Tokens(told(a)) }

func sum[T any](all []T, of func(T) int) (total int) {
	for _, one := range all {
		total += of(one)
	}
	return total
}

// offer is what a connection offers in a turn.
type offer struct {
	names []string
	note  string
}

// ask asks all connections at the same time what they offer.
func (c *Choice) ask(ctx context.Context, turn *actions.Turn) []offer {
	ctx, cancel := context.WithTimeout(ctx, offerWithin)
	defer cancel()
	offers := make([]offer, len(c.connections))
	var asking sync.WaitGroup
	for i, connection := range c.connections {
		asking.Go(func() {
			names, note := connection.Offer(ctx, turn)
			if note != "" {
				note = spelling.OneLine(note, maxNote)
			}
			offers[i] = offer{names, note}
		})
	}
	asking.Wait()
	return offers
}

// Extend returns what the connections add to a turn, see [Choice]. The error is that of the state of the
// conversation.
func (c *Choice) Extend(ctx context.Context, turn *actions.Turn) (actions.Extra, error) {
	offers := c.ask(ctx, turn) // which may change what is known
	k := c.current()
	if names, ok := c.whole(k, offers); ok {
		return c.extra(zerolog.Ctx(ctx), k, names, false, c.lines("About other services:", offers, false)), nil
	}
	f, err := foundIn(turn)
	if err != nil {
		return actions.Extra{}, err
	}
	f.begin(turn.ID)
	f.note(turn, k)
	text := c.lines("Other services have more actions than you are offered. Find what you need with "+FindActions+" first:", offers, true)
	return c.extra(zerolog.Ctx(ctx), k, c.offered(f, k, offers), true, text), nil
}

// whole returns the names of all that is offered, if models may be told all of it.
func (c *Choice) whole(k *known, offers []offer) (names []string, ok bool) {
	if n := sum(offers, func(o offer) int { return len(o.names) }); n > 0 && len(c.own.All())+n > maxOffered {
		return nil, false
	}
	for _, o := range offers {
		for _, name := range o.names {
			if _, ok := k.at[name]; ok {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil, true
	}
	bytes := func(name string) int { return k.all[k.at[name]].bytes() }
	tokens := func(name string) int { return k.all[k.at[name]].tokens() }
	// A text has at most one token per byte, and bytes are free to count.
	return names, c.ownBytes()+sum(names, bytes) <= maxTokens || c.ownTokens()+sum(names, tokens) <= maxTokens
}

// lines tells of the connections, one line each: of all, or only of those with a note. It is "" if there
// are none.
func (c *Choice) lines(heading string, offers []offer, all bool) string {
	var text strings.Builder
	for i, o := range offers {
		if !all && o.note == "" {
			continue
		}
		text.WriteString(c.lead[i])
		if all && len(o.names) > 0 {
			text.WriteString(" (actions: " + strconv.Itoa(len(o.names)) + ")")
		}
		if o.note != "" {
			text.WriteString(". " + o.note)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return heading + text.String()
}

// extra offers actions of k, and findActions if the model has to search.
func (c *Choice) extra(log *zerolog.Logger, k *known, names []string, search bool, text string) actions.Extra {
	if len(names) == 0 && text == "" {
		return actions.Extra{}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%d %t %s\n%s", k.version, search, strings.Join(names, " "), text)
	return actions.Extra{
		Key:  "connections " + hex.EncodeToString(hash.Sum(nil)),
		Text: text,
		Offer: func(all *actions.Registry) (*actions.Registry, error) {
			var more []*actions.Action
			if search {
				more = append(more, c.find)
			}
			for _, name := range names {
				if own, taken := all.Lookup(name); !taken || own.Name != name {
					more = append(more, k.all[k.at[name]].Action)
				} else if _, told := c.hidden.LoadOrStore(name, true); !told {
					log.Warn().Str("action", name).Msg("an action of the bot hides one of a connection that has the same name")
				}
			}
			with, err := all.With(more...)
			with.Missing = func(name string) string {
				advice := c.missing(name, search)
				if advice == "" && all.Missing != nil {
					advice = all.Missing(name)
				}
				return advice
			}
			return with, err
		},
	}
}

var oneSeparator = strings.NewReplacer(".", "_", "-", "_")

// missing counts a call of an action that is not offered, and says what to do instead. All actions of a
// connection begin with its key.
func (c *Choice) missing(name string, search bool) string {
	name = oneSeparator.Replace(strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "functions.")))
	ours := func(connection actions.Connection) bool { return strings.HasPrefix(name, connection.Key()+"_") }
	switch {
	case !slices.ContainsFunc(c.connections, ours):
		return ""
	case search:
		c.count("action_misses_total", "")
		return "; it is not offered now: call " + FindActions + " first, and plan again with what it finds"
	}
	c.count("action_misses_total", "")
	return "; it is not offered now"
}

// query is what a model searches for.
type query struct {
	Words      string `json:"words" jsonschema:"what the action does, in a few words of its service, such as create issue"`
	Connection string `json:"connection,omitempty" jsonschema:"the service, to search only there"`
}

// search is findActions.
func (c *Choice) search(ctx context.Context, turn *actions.Turn, q query) (actions.Result, error) {
	var keys []string
	for _, connection := range c.connections {
		keys = append(keys, connection.Key())
	}
	if q.Connection != "" && !slices.Contains(keys, strings.ToLower(strings.TrimSpace(q.Connection))) {
		return actions.Fail("There is no service %q. There are %s.", spelling.Clip(q.Connection), strings.Join(keys, ", ")), nil
	}
	f, err := foundIn(turn)
	if err != nil {
		return actions.Result{}, err
	}
	offers := c.ask(ctx, turn)
	k := c.current()
	offered := map[string]bool{}
	for i, o := range offers {
		if q.Connection == "" || strings.EqualFold(keys[i], strings.TrimSpace(q.Connection)) {
			for _, name := range o.names {
				offered[name] = true
			}
		}
	}
	words := wordsOf(q.Words)
	hits := rank(k.index(), words[:min(len(words), maxWords)], func(i int) bool { return offered[k.all[i].Name] })
	if len(hits) == 0 {
		c.count("action_searches_total", "nothing")
		return actions.Observe("Nothing was found. Search with other words for the same; if that finds nothing, no service can do it."), nil
	}
	c.count("action_searches_total", "found")
	names, lines := []string{}, []string{"You can plan these now, the best match first:"}
	tokens := 0
	for i, h := range hits[:min(len(hits), maxHits)] {
		d := &k.all[h.Text]
		if tokens += d.tokens(); i > 0 && tokens > maxTokens {
			break
		}
		names = append(names, d.Name)
		lines = append(lines, "- "+d.Name+": "+spelling.OneLine(d.Description, maxLine))
	}
	if more := len(hits) - len(names); more > 0 {
		lines = append(lines, fmt.Sprintf("Less like it: %d more. If none of these is right, search with other words.", more))
	}
	for _, name := range slices.Backward(names) { // the best one is to stay longest
		f.add(name, turn.ID)
	}
	return actions.Observe(strings.Join(lines, "\n")), nil
}

// foundActions are the actions of connections that a conversation, or a channel thread, has found or used.
// It is a value of the thread's state.
type foundActions struct {
	Turns int           `json:"turns,omitzero"` // since the first was found
	Turn  string        `json:"turn,omitzero"`  // the last counted turn
	Found []foundAction `json:"found,omitempty"`
	Used  []string      `json:"used,omitempty"` // the last ones, oldest first
}

type foundAction struct {
	Action string `json:"action"`
	Turn   int    `json:"turn,omitzero"` // in which it was found last
}

func (*foundActions) StateName() string { return "foundActions" }

// foundIn returns what the turn's conversation has found. Outside of conversations it is not saved.
func foundIn(turn *actions.Turn) (*foundActions, error) {
	if turn.Thread == nil {
		return new(foundActions), nil
	}
	f := state.Of[foundActions](turn.Thread)
	if err := turn.Thread.Err(); err != nil {
		return nil, fmt.Errorf("read which actions were found: %w", err)
	}
	return f, nil
}

// begin counts the turn, once, and drops what was found too long ago.
func (f *foundActions) begin(turn string) {
	if len(f.Found) == 0 || f.Turn == turn {
		return
	}
	f.Turn = turn
	f.Turns++
	f.Found = slices.DeleteFunc(f.Found, func(a foundAction) bool { return a.Turn+foundFor < f.Turns })
	if len(f.Found) == 0 {
		f.Found, f.Turns, f.Turn = nil, 0, ""
	}
}

// add notes that an action was found. Beyond maxOffered, those found first are dropped.
func (f *foundActions) add(name, turn string) {
	if len(f.Found) == 0 {
		f.Turn = turn
	}
	f.Found = slices.DeleteFunc(f.Found, func(a foundAction) bool { return a.Action == name })
	f.Found = append(f.Found, foundAction{name, f.Turns})
	f.Found = f.Found[max(0, len(f.Found)-maxOffered):]
}

// note notes which actions of k were used last: at the start of a turn those of the history, then those
// of the turn.
func (f *foundActions) note(turn *actions.Turn, k *known) {
	used := slices.Clone(f.Used)
	use := func(name string) {
		if _, ours := k.at[name]; ours {
			used = append(slices.DeleteFunc(used, func(other string) bool { return other == name }), name)
		}
	}
	if len(turn.Rounds) == 0 && turn.Thread != nil {
		for _, earlier := range state.Peek[prompts.History](turn.Thread).Turns {
			for _, m := range earlier.Messages {
				if m.Role == "assistant" {
					planned(m.Text, use)
				}
			}
		}
	}
	for _, round := range turn.Rounds {
		for _, o := range round.Outcomes {
			use(o.Action)
		}
	}
	f.Used = used[max(0, len(used)-maxUsed):]
}

// planned calls use for the actions of a plan in the history. It does not decode the plan, which the
// history may have cut: quotes in texts are escaped, so these bytes are no text.
func planned(transcript string, use func(name string)) {
	if !strings.HasPrefix(transcript, `{"type":"plan"`) {
		return
	}
	for rest, found := transcript, true; found; {
		if _, rest, found = strings.Cut(rest, `"action":"`); found {
			name, _, _ := strings.Cut(rest, `"`)
			use(name)
		}
	}
}

// offered returns which actions a model that has to search is offered without that: those that were used
// last, and after them, so that the prompt before them stays as it is, those that were found. Of these
// the oldest are left out if there are too many, but never all.
func (c *Choice) offered(f *foundActions, k *known, offers []offer) (names []string) {
	isFound := func(name string) bool {
		return slices.ContainsFunc(f.Found, func(a foundAction) bool { return a.Action == name })
	}
	now := func(name string) bool {
		i, ok := k.at[name]
		return ok && slices.Contains(offers[k.all[i].connection].names, name)
	}
	for i, o := range offers { // nobody would search for it
		if connect := Name(c.connections[i].Key(), "connect"); len(o.names) == 1 && o.names[0] == connect && now(connect) {
			names = append(names, connect)
		}
	}
	for _, name := range f.Used {
		if now(name) && !isFound(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	first, tokens := len(f.Found), 0
	for first > 0 {
		if name := f.Found[first-1].Action; now(name) {
			if tokens += k.all[k.at[name]].tokens(); tokens > maxTokens && first < len(f.Found) {
				break
			}
		}
		first--
	}
	for _, a := range f.Found[first:] {
		if now(a.Action) && !slices.Contains(names, a.Action) {
			names = append(names, a.Action)
		}
	}
	return names
}

const (
	maxWords       = 32  // of a query
	maxDescription = 400 // characters of a description that are searched
	nameWeight     = 3
)

// rank returns the texts that have any of the words, each of which counts once, best first, among those for which among returns
// true. It returns none if none of these has the rarest word of those that any text has: what they
// have in common with the query is then only what many have.
func rank(index *bm25.Index, words []string, among func(text int) bool) []bm25.Hit {
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	var rarest []int
	for _, word := range words {
		if having := index.Having(word); len(having) > 0 && (rarest == nil || len(having) < len(rarest)) {
			rarest = having
		}
	}
	if !slices.ContainsFunc(rarest, among) {
		return nil
	}
	return index.Rank(words, among, 0)
}

// wordsOf splits a text into words in lower case, at everything but letters and digits. A word in camel
// case counts as a whole and as its parts.
func wordsOf(text string) (words []string) {
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }
	for _, word := range strings.FieldsFunc(text, between) {
		if parts := camelCase(word); len(parts) > 1 {
			words = append(words, parts...)
		}
		words = append(words, strings.ToLower(word))
	}
	return words
}

// camelCase splits a word before each capital letter that follows a small one or a digit, or that a small
// one follows: getHTTPStatus is get, http and status.
func camelCase(word string) (parts []string) {
	runes, start := []rune(word), 0
	for i := 1; i < len(runes); i++ {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			parts = append(parts, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return append(parts, strings.ToLower(string(runes[start:])))
}

// documentOf is what an action of a connection is found by.
func documentOf(key string, a *actions.Action) []string {
	name := wordsOf(cmp.Or(a.Source.Remote, strings.TrimPrefix(a.Name, key+"_")))
	words := slices.Repeat(name, nameWeight)
	words = append(words, key)
	description := []rune(a.Description)
	words = append(words, wordsOf(string(description[:min(len(description), maxDescription)]))...)
	for _, parameter := range slices.Sorted(maps.Keys(a.Schema.Properties)) {
		words = append(words, wordsOf(parameter)...)
	}
	return words
}
