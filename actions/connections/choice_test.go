package connections_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/fakeconnection"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// bundle is a choice with what a conversation needs.
type bundle struct {
	*connections.Choice
	t      testing.TB
	own    *actions.Registry
	counts map[string]int // by metric and label
	mu     *sync.Mutex
	ctx    context.Context
	thread *state.Scope
	turns  int
}

// setup makes a choice beside so many own actions.
func setup(t testing.TB, own int, services ...*fakeconnection.Connection) *bundle {
	t.Helper()
	b := &bundle{t: t, own: registry("own", own), counts: map[string]int{}, mu: &sync.Mutex{}, ctx: t.Context(), thread: state.NewScope()}
	var all []actions.Connection
	for _, s := range services {
		all = append(all, s)
	}
	var err error
	if b.Choice, err = connections.NewChoice(all, b.count); err != nil {
		t.Fatal(err)
	}
	if err := b.Register(b.own); err != nil {
		t.Fatal(err)
	}
	return b
}

type nothing struct{}

// registry has actions prefix_0, prefix_1 and so on.
func registry(prefix string, n int, about ...string) *actions.Registry {
	r := actions.New()
	for i := range n {
		description := fmt.Sprintf("Does thing number%d", i)
		if i < len(about) {
			description = about[i]
		}
		actions.Add(r, fmt.Sprint(prefix, "_", i), description, func(context.Context, *actions.Turn, nothing) (actions.Result, error) { return actions.Done, nil })
	}
	return r
}

// turn is the next turn of the conversation.
func (b *bundle) turn() *actions.Turn {
	b.turns++
	return &actions.Turn{ID: fmt.Sprint("turn", b.turns), Thread: b.thread}
}

func (b *bundle) extend(turn *actions.Turn) actions.Extra {
	b.t.Helper()
	extra, err := b.Extend(b.ctx, turn)
	if err != nil {
		b.t.Fatal(err)
	}
	return extra
}

// offered are the actions that a plan may use in the turn now, without the bot's own.
func (b *bundle) offered(turn *actions.Turn) (names []string) {
	b.t.Helper()
	all := b.own.WithoutSources()
	if extra := b.extend(turn); extra.Offer != nil {
		var err error
		if all, err = extra.Offer(all); err != nil {
			b.t.Fatal(err)
		}
	}
	for i, a := range all.All() {
		if own := len(b.own.All()); i >= own {
			names = append(names, a.Name)
		} else if a.Name != fmt.Sprint("own_", i) {
			b.t.Fatalf("own action %d is %s", i, a.Name)
		}
	}
	return names
}

// search calls findActions as a bot does.
func (b *bundle) search(turn *actions.Turn, words, connection string) actions.Result {
	b.t.Helper()
	find, ok := b.own.Lookup("findActions")
	if !ok || !find.StateOnly {
		b.t.Fatalf("findActions is %+v", find)
	}
	entities, err := find.Check(map[string]any{"words": words, "connection": connection})
	if err != nil {
		b.t.Fatal(err)
	}
	result, err := find.Call(b.ctx, turn, entities)
	if err != nil {
		b.t.Fatal(err)
	}
	if !result.Failed() && !result.Stops(false) {
		b.t.Error("the plan goes on before the model sees what was found")
	}
	return result
}

func (b *bundle) count(metric, label string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[metric+" "+label]++
}

// TestRank: the numbers are those of BM25 with k1 1.2 and b 0.75.
func TestRank(t *testing.T) {
	t.Parallel()
	texts := []string{
		"create issue open a new issue in a repository", "list issues of a repository", "merge pull request",
		"create page in a space", "send message to a channel",
	}
	for query, want := range map[string][]connections.Ranked{
		"create issue": {{1, 2.2931}, {4, 0.9028}}, "repository list": {{2, 2.3324}, {1, 0.6879}}, "list repository list": {{2, 2.3324}, {1, 0.6879}},
		"deploy": nil, "": nil,
	} {
		near := func(a, b connections.Ranked) bool {
			return a.Document == b.Document && math.Abs(a.Score-b.Score) < 0.0001
		}
		if got := connections.Rank(texts, query); !slices.EqualFunc(got, want, near) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestWordsOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"create_issue":                  "create issue",
		"jira-create.issue v2":          "jira create issue v2",
		"getHTTPStatus, createdAt":      "get http status gethttpstatus created at createdat",
		"Größe e\u0301te URL":           "größe e\u0301te url",
		"":                              "",
		"The TLS certificate (expired)": "the tls certificate expired",
	} {
		if got := strings.Join(connections.WordsOf(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestFewAreAllOffered and models hear no word about it; one more, and they have to search.
func TestFewAreAllOffered(t *testing.T) {
	t.Parallel()
	for own, search := range map[int]bool{0: false, 10: false, 20: false, 21: true, 41: true} {
		service := fakeconnection.New("one", "The first", registry("one", 20))
		b := setup(t, own, service)
		turn := b.turn()
		offered, extra := b.offered(turn), b.extend(turn)
		if search {
			want := "Other services have more actions than you are offered. Find what you need with findActions first:\n- one: The first (actions: 20)"
			if !slices.Equal(offered, []string{"findActions"}) || extra.Text != want {
				t.Errorf("beside %d: offered %v with %q", own, offered, extra.Text)
			}
			continue
		}
		if len(offered) != 20 || offered[0] != "one_0" || extra.Text != "" || extra.Key == "" {
			t.Errorf("beside %d: offered %v with %q", own, offered, extra.Text)
		}
	}
}

// TestLongDefinitionsAreSearched although there are few.
func TestLongDefinitionsAreSearched(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("many words ", 500) // some 1,000 tokens
	service := fakeconnection.New("one", "", registry("one", 7, long, long, long, long, long, long, long))
	if got := setup(t, 1, service).offered(&actions.Turn{}); len(got) != 7 {
		t.Errorf("offered %v", got)
	}
	service.Set(registry("one", 9, long, long, long, long, long, long, long, long, long))
	if got := setup(t, 1, service).offered(&actions.Turn{}); !slices.Equal(got, []string{"findActions"}) {
		t.Errorf("offered %v", got)
	}
	own := setup(t, 8, service)
	service.Set(registry("one", 1))
	for _, a := range own.own.All() {
		a.Description = long
	}
	if got := own.offered(&actions.Turn{}); !slices.Equal(got, []string{"findActions"}) {
		t.Errorf("beside long ones of the bot: offered %v", got)
	}
}

func TestNothingIsAddedWithoutActions(t *testing.T) {
	t.Parallel()
	b := setup(t, 50, fakeconnection.New("one", "The first", actions.New()))
	if extra := b.extend(b.turn()); extra.Key != "" || extra.Text != "" || extra.Offer != nil {
		t.Errorf("got %+v", extra)
	}
	none := setup(t, 50)
	if extra := none.extend(none.turn()); extra.Key != "" {
		t.Errorf("got %+v", extra)
	}
}

// TestWhatIsFoundCanBePlanned in the same turn and the next three, and no longer.
func TestWhatIsFoundCanBePlanned(t *testing.T) {
	t.Parallel()
	b := setup(t, 3, fakeconnection.Services(5, 0)...)
	turn := b.turn()
	if got := b.offered(turn); !slices.Equal(got, []string{"findActions"}) {
		t.Fatalf("offered %v", got)
	}
	text := b.search(turn, "merge pull request", "").Text()
	if !strings.HasPrefix(text, "You can plan these now, the best match first:\n- code_merge_pull_request: Merges a pull request into") || strings.Count(text, "\n- ") != 8 || !strings.Contains(text, "\nLess like it: ") {
		t.Errorf("found %s", text)
	}
	for i := range 5 {
		got := b.offered(turn)
		if there := slices.Contains(got, "code_merge_pull_request"); there != (i < 4) || there && (len(got) != 9 || got[8] != "code_merge_pull_request" || got[0] != "findActions") {
			t.Errorf("%d turns later %v are offered", i, got)
		}
		if again := b.offered(turn); !slices.Equal(got, again) {
			t.Errorf("a later round is another turn: %v", again)
		}
		turn = b.turn()
	}
	if raw, err := b.thread.JSON("foundActions"); raw != nil || err != nil {
		t.Errorf("kept %s, %v", raw, err)
	}
}

func TestSearches(t *testing.T) {
	t.Parallel()
	services := fakeconnection.Services(5, 0)
	b := setup(t, 0, services...)
	nothing := "Nothing was found. Search with other words for the same; if that finds nothing, no service can do it."
	for _, c := range []struct{ words, connection, want string }{
		{"teleport", "", nothing},
		{"!", "", nothing},
		{strings.Repeat("teleport ", 10_000), "", nothing},
		{"invoice", "code", nothing}, // the rarest word is known, but not there
		{"list invoice", "code", nothing},
		{"pull request", "git", "There is no service \"git\". There are code, desk, crm, office, ops."},
		{"pull request", " Code ", "You can plan these now, the best match first:\n- code_"},
	} {
		if got := b.search(b.turn(), c.words, c.connection).Text(); got != c.want && (!strings.HasSuffix(c.want, "_") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%.20s in %q: %s", c.words, c.connection, got)
		}
	}
	services[0].Only("code_get_issue") // as for a person who may do less
	if got := b.search(b.turn(), "get issue", "code").Text(); strings.Count(got, "\n- ") != 1 || !strings.Contains(got, "code_get_issue") {
		t.Errorf("found %s", got)
	}
	if b.counts["action_searches_total found"] != 2 || b.counts["action_searches_total nothing"] != 5 {
		t.Errorf("counted %v", b.counts)
	}
}

// TestWhatActionsAreFoundBy: their own names above all, their connection, the beginning of their
// description, their parameters.
func TestWhatActionsAreFoundBy(t *testing.T) {
	t.Parallel()
	all := actions.New()
	type parameters struct {
		Weekday string `json:"weekDay"`
	}
	add := func(name, remote, description string) {
		a := actions.Add(all, name, description, func(context.Context, *actions.Turn, parameters) (actions.Result, error) { return actions.Done, nil })
		a.Source.Remote = remote
	}
	add("one_a", "", "Says what a tramway is")
	add("one_tramway_00c0ffee", "tram.way", "Rides")
	add("one_tramway", "", "Rides "+strings.Repeat("x", 394)+" late")
	add("one_b", "", "A rather long description that ends with tramway")
	b := setup(t, 40, fakeconnection.New("one", "", all), fakeconnection.New("two", "", registry("two", 40)))
	for words, want := range map[string][]string{
		"tramway": {"one_tramway", "one_a", "one_b"}, "way": {"one_tramway_00c0ffee"}, "TRAM": {"one_tramway_00c0ffee"},
		"c0ffee": nil, "late": nil, "weekDay": {"one_a", "one_tramway_00c0ffee", "one_b", "one_tramway"}, "one": {"one_a", "one_tramway_00c0ffee", "one_b", "one_tramway"},
	} {
		var got []string
		for _, line := range strings.Split(b.search(b.turn(), words, "").Text(), "\n- ")[1:] {
			name, _, _ := strings.Cut(line, ":")
			got = append(got, name)
		}
		if words == "weekDay" || words == "one" { // whichever comes first
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", words, got, want)
		}
	}
}

// TestSoManyStayFound: 40 at most, and definitions of 8,000 tokens; those found first go first, but never
// the last one.
func TestSoManyStayFound(t *testing.T) {
	t.Parallel()
	var about []string
	for i := range 100 {
		about = append(about, fmt.Sprintf("Word%d", i))
	}
	b := setup(t, 0, fakeconnection.New("one", "", registry("one", 100, about...)))
	turn := b.turn()
	for i := range 45 {
		b.search(turn, about[i], "")
	}
	b.search(turn, about[10], "")
	got := b.offered(turn)
	if len(got) != 41 || got[1] != "one_5" || got[39] != "one_44" || got[40] != "one_10" {
		t.Errorf("offered %v", got)
	}

	long := strings.Repeat(" many words", 2000) // some 4,000 tokens
	service := fakeconnection.New("one", "", registry("one", 50, "alpha"+long, "beta"+long, "gamma"+long+long+long, "delta alpha"+long))
	b = setup(t, 0, service)
	turn = b.turn()
	for _, c := range []struct {
		words string
		want  []string
	}{
		{"alpha", []string{"one_0", "one_3"}[:1]}, // the second one makes it too long
		{"beta", []string{"one_1"}},
		{"gamma", []string{"one_2"}},
	} {
		text := b.search(turn, c.words, "").Text()
		if got := b.offered(turn); !slices.Equal(got[1:], c.want) || strings.Count(text, "\n- ") != len(c.want) {
			t.Errorf("%s: offered %v after %.100s", c.words, got, text)
		}
	}
}

// TestWhatOthersFoundIsOnlyForThoseWhoMay: people of a conversation may be offered different actions.
func TestWhatOthersFoundIsOnlyForThoseWhoMay(t *testing.T) {
	t.Parallel()
	services := fakeconnection.Services(5, 0)
	b := setup(t, 0, services...)
	turn := b.turn()
	turn.Rounds = []actions.Round{{Outcomes: []actions.Outcome{{Action: "code_get_issue"}, {Action: "code_get_commit"}}}}
	b.search(turn, "rerun failed jobs", "code")
	if got := b.offered(turn); !slices.Contains(got, "code_rerun_failed_jobs") || !slices.Contains(got, "code_get_commit") {
		t.Fatalf("offered %v", got)
	}
	services[0].Only("code_get_issue", "code_list_labels")
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"findActions", "code_get_issue"}) {
		t.Errorf("offered %v", got)
	}
	services[0].Say(true, "")
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"findActions"}) {
		t.Errorf("offered %v", got)
	}
}

// TestTheLastUsedStayOffered, from the history and from this turn.
func TestTheLastUsedStayOffered(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, fakeconnection.Services(5, 0)...)
	history := state.Of[prompts.History](b.thread)
	did := func(list ...string) {
		text := `{"type":"plan","commands":[`
		for _, name := range list {
			text += `{"type":"DO","action":"` + name + `","entities":{"body":"\"action\":\"ops_list_buckets\""}},`
		}
		history.Append(prompts.Turn{Messages: []prompts.Message{
			{Role: "user", Text: `{"type":"plan","commands":[{"type":"DO","action":"ops_list_servers"}]}`}, {Role: "assistant", Text: strings.TrimSuffix(text, ",") + `]}`},
		}}, 1)
	}
	for _, c := range []struct {
		did  []string
		want []string
	}{
		{nil, nil},
		{[]string{"own_1", "code_get_issue", "code_gone"}, []string{"code_get_issue"}},
		{[]string{"crm_get_deal", "crm_get_quote", "crm_get_order"}, []string{"code_get_issue", "crm_get_deal", "crm_get_order"}},
		{[]string{"ops_list_alerts", "crm_get_deal"}, []string{"crm_get_order", "ops_list_alerts", "crm_get_deal"}},
		{[]string{"own_0"}, []string{"crm_get_order", "ops_list_alerts", "crm_get_deal"}},
	} {
		did(c.did...)
		turn := b.turn()
		if got := b.offered(turn); !slices.Equal(got[1:], c.want) {
			t.Errorf("after %v: offered %v, want %v", c.did, got, c.want)
		}
	}
	turn := b.turn()
	turn.Rounds = []actions.Round{{Outcomes: []actions.Outcome{{Action: "SAY"}, {Action: "desk_get_ticket", Failed: true}}}}
	if got := b.offered(turn); !slices.Equal(got[1:], []string{"ops_list_alerts", "crm_get_deal", "desk_get_ticket"}) {
		t.Errorf("in this turn: offered %v", got)
	}
	b.search(turn, "get ticket", "desk")
	if got := b.offered(turn); slices.Index(got, "desk_get_ticket") != len(got)-1 || len(got) != len(slices.Compact(slices.Sorted(slices.Values(got)))) {
		t.Errorf("what was found and used: offered %v", got)
	}
}

func TestResetForgetsWhatWasFound(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, fakeconnection.Services(5, 0)...)
	turn := b.turn()
	b.search(turn, "merge pull request", "")
	b.own.Reset(turn)
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"findActions"}) {
		t.Errorf("offered %v", got)
	}
}

// TestAConnectionThatIsAway costs its own actions.
func TestAConnectionThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, each := range []int{10, 40} {
			services := fakeconnection.Services(2, each)
			b := setup(t, 1, services...)
			services[1].Say(true, "The service is away\nnow.")
			var log bytes.Buffer
			b.ctx = zerolog.New(&log).WithContext(b.ctx)
			offered := b.offered(b.turn())
			if slices.ContainsFunc(offered, func(name string) bool { return strings.HasPrefix(name, "desk_") }) || each == 10 && len(offered) != 10 {
				t.Errorf("of %d each %v are offered", each, offered)
			}
			line := "- desk: Service desk: tickets, knowledge articles and on-call agents. The service is away now."
			if text := b.extend(b.turn()).Text; !strings.Contains(text, line) {
				t.Errorf("told %q", text)
			}
			if each == 40 {
				if got := b.search(b.turn(), "ticket", "").Text(); strings.Contains(got, "desk_") {
					t.Errorf("found %s", got)
				}
			}
			if _, ok := b.own.Lookup("desk_get_ticket"); !ok {
				t.Error("a plan that waited does not find its action")
			}
			if log.Len() > 0 { // the connection logs it, with the reason
				t.Errorf("logged %s", log.String())
			}
			services[1].Say(false, "")
			if each == 10 && len(b.offered(b.turn())) != 20 {
				t.Error("it does not come back")
			}
		}
	})
}

// stuck is a service that answers only when the context ends, and then offers nothing.
type stuck struct{ *fakeconnection.Connection }

func (s stuck) Offer(ctx context.Context, _ *actions.Turn) (names []string, note string) {
	<-ctx.Done()
	return nil, "The service does not answer."
}

// TestSlowConnectionsCostTenSeconds together, and only their own actions.
func TestSlowConnectionsCostTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(key string) stuck { return stuck{fakeconnection.New(key, "", registry(key, 5))} }
		c, err := connections.NewChoice([]actions.Connection{slow("slow"), fakeconnection.New("one", "", registry("one", 5)), slow("slower")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		extra, err := c.Extend(t.Context(), &actions.Turn{})
		if err != nil || time.Since(began) != 10*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		all, err := extra.Offer(actions.New())
		want := "About other services:\n- slow. The service does not answer.\n- slower. The service does not answer."
		if err != nil || len(all.All()) != 5 || extra.Text != want {
			t.Errorf("%d offered, %v, told %q", len(all.All()), err, extra.Text)
		}
	})
}

// TestTheKeyIsOfAllThatIsOfferedAndSaid: planners look at an extra once for each key.
func TestTheKeyIsOfAllThatIsOfferedAndSaid(t *testing.T) {
	t.Parallel()
	services := fakeconnection.Services(5, 0)
	b := setup(t, 2, services...)
	keys := map[string]string{}
	seen := func(what string, isNew bool) {
		t.Helper()
		key := b.extend(b.turn()).Key
		if old, there := keys[key]; there == isNew {
			t.Errorf("%s: the key is that of %q", what, old)
		}
		keys[key] = what
	}
	seen("nothing", true)
	seen("again", false)
	services[0].Say(false, "Be quick.")
	seen("a note", true)
	services[0].Say(true, "Be quick.")
	seen("away", true)
	services[0].Say(false, "")
	seen("back", false)
	b.search(b.turn(), "merge pull request", "")
	seen("found", true)
	b.search(b.turn(), "order laptop", "")
	seen("found more", true)
	b.own.Reset(b.turn())
	seen("nothing found", false)
	services[0].Set(fakeconnection.Services(1, 0)[0].Actions()) // the same names: another definition
	seen("changed", true)
	seen("and again", false)
	for _, s := range services[1:] {
		s.Set(actions.New())
	}
	services[0].Set(registry("code", 3))
	seen("few", true)
	services[0].Only("code_1")
	seen("fewer", true)
}

// TestActionsComeAndGo: Lookup finds what the connections know now.
func TestActionsComeAndGo(t *testing.T) {
	t.Parallel()
	service := fakeconnection.New("one", "", registry("one", 3))
	b := setup(t, 1, service, fakeconnection.New("two", "", registry("two", 3)))
	before, _ := b.own.Lookup("one_1")
	if again, _ := b.own.Lookup("one_1"); before == nil || before != again {
		t.Error("what they know is put together again although nothing changed")
	}
	service.Set(registry("one", 2, "New"))
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"one_0", "one_1", "two_0", "two_1", "two_2"}) {
		t.Errorf("offered %v", got)
	}
	if a, ok := b.own.Lookup("one_0"); !ok || a.Description != "New" {
		t.Errorf("found %+v", a)
	}
	if a, ok := b.own.Lookup("one_2"); ok {
		t.Errorf("found %+v, which is gone", a)
	}
	service.Only("one_0", "one_7") // more than it knows
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"one_0", "two_0", "two_1", "two_2"}) {
		t.Errorf("offered %v", got)
	}
	if len(b.own.All()) != 1 {
		t.Error("help lists the actions of connections")
	}
}

// TestTheBotsOwnActionsComeFirst where names meet. The log names each of the others once.
func TestTheBotsOwnActionsComeFirst(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := setup(t, 2, fakeconnection.New("own", "", registry("own", 3, "Not this one")))
	b.ctx = zerolog.New(&log).WithContext(b.ctx)
	for range 2 {
		extra := b.extend(b.turn())
		all, err := extra.Offer(b.own.WithoutSources())
		if err != nil || len(all.All()) != 3 || all.All()[0].Description != "Does thing number0" {
			t.Errorf("%v, %v", all.All(), err)
		}
	}
	if lines := log.String(); strings.Count(lines, "hides") != 2 || strings.Count(lines, `"own_0"`) != 1 || strings.Count(lines, `"own_1"`) != 1 {
		t.Errorf("the log says %s", lines)
	}
}

// TestConnectingIsAlwaysOffered: who has to sign in first would never find that.
func TestConnectingIsAlwaysOffered(t *testing.T) {
	t.Parallel()
	connect := actions.New()
	actions.Add(connect, "mine_connect", "Connects the account", func(context.Context, *actions.Turn, nothing) (actions.Result, error) { return actions.Done, nil })
	mine := fakeconnection.New("mine", "", connect)
	b := setup(t, 2, append(fakeconnection.Services(5, 0), mine)...)
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"findActions", "mine_connect"}) {
		t.Errorf("offered %v", got)
	}
	add := func(name string) {
		actions.Add(connect, name, "Does it", func(context.Context, *actions.Turn, nothing) (actions.Result, error) { return actions.Done, nil })
	}
	connect = actions.New()
	add("mine_connect")
	add("mine_more")
	mine.Set(connect) // now it is one of many
	if got := b.offered(b.turn()); !slices.Equal(got, []string{"findActions"}) {
		t.Errorf("offered %v", got)
	}
}

// TestACallOfWhatIsNotOffered is told what to do instead, and counted.
func TestACallOfWhatIsNotOffered(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, fakeconnection.Services(5, 0)...)
	all, err := b.extend(b.turn()).Offer(b.own.WithoutSources())
	if err != nil {
		t.Fatal(err)
	}
	const search, none = "; it is not offered now: call findActions first, and plan again with what it finds", ""
	for name, want := range map[string]string{
		"code_merge_pull_request": search, "Code.create_issue": search, "functions.ops-restart_service": search, "desk_no_such": search,
		"own_7": none, "codec_x": none, "code": none, "": none,
	} {
		if got := all.Missing(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	narrow, err := all.Only(actions.Offer{Name: "findActions"})
	if err != nil || narrow.Missing("crm_get_deal") != search {
		t.Errorf("an extension after this one loses it: %v", err)
	}
	if b.counts["action_misses_total "] != 5 {
		t.Errorf("counted %v", b.counts)
	}
	few := setup(t, 2, fakeconnection.Services(2, 3)...)
	outer := few.own.WithoutSources()
	outer.Missing = func(name string) string { return "; " + name + "?" }
	if all, err = few.extend(few.turn()).Offer(outer); err != nil || all.Missing("code_get_deal") != "; it is not offered now" || all.Missing("x") != "; x?" {
		t.Errorf("%q, %q, %v", all.Missing("code_get_deal"), all.Missing("x"), err)
	}
}

func TestStateThatCannotBeReadEndsTheTurn(t *testing.T) {
	t.Parallel()
	b := setup(t, 2, fakeconnection.Services(5, 0)...)
	turn := b.turn()
	turn.Thread = state.ScopeOf(map[string]jsontext.Value{"foundActions": jsontext.Value(`{"turns":"many"}`)})
	if _, err := b.Extend(t.Context(), turn); !errors.Is(err, state.ErrValue) {
		t.Errorf("got %v", err)
	}
	find, _ := b.own.Lookup("findActions")
	if _, err := find.Call(t.Context(), turn, map[string]any{"words": "issue"}); !errors.Is(err, state.ErrValue) {
		t.Errorf("got %v", err)
	}
}

func TestAWrongChoiceIsRefused(t *testing.T) {
	t.Parallel()
	one := fakeconnection.New("one", "", actions.New())
	_, err := connections.NewChoice([]actions.Connection{one, nil, fakeconnection.New("One", "", actions.New()), one}, nil)
	want := "choice of actions: connection 2 is nil\nconnection \"One\": want a lower-case letter, then at most 15 lower-case letters or digits\ntwo connections have the key \"one\""
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	b := setup(t, 1)
	if err := b.Register(b.own); err == nil {
		t.Error("findActions is registered twice")
	}
}

// TestManyTurnsAtOnce is for the race detector.
func TestManyTurnsAtOnce(t *testing.T) {
	t.Parallel()
	services := fakeconnection.Services(5, 0)
	b := setup(t, 2, services...)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			own := *b
			own.thread = state.NewScope()
			for j := range 20 {
				turn := &actions.Turn{ID: fmt.Sprint(j), Thread: own.thread}
				own.offered(turn)
				own.search(turn, "list issues", "")
				if i == 0 {
					services[j%5].Set(registry(services[j%5].Key(), 50))
				}
			}
		})
	}
	running.Wait()
}

// TestTheRightActionIsFound: how often it is the first that a shipped query finds, or among the first
// five or eight, of all shipped actions.
func TestTheRightActionIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t, 0, fakeconnection.Services(5, 0)...)
	queries, among := fakeconnection.Queries(), map[int]int{}
	for _, q := range queries {
		var found []string
		for line := range strings.Lines(b.search(b.turn(), q.Words, "").Text()) {
			if listed, ok := strings.CutPrefix(line, "- "); ok {
				name, _, _ := strings.Cut(listed, ":")
				found = append(found, name)
			}
		}
		at := slices.IndexFunc(found, func(name string) bool { return slices.Contains(q.Right, name) })
		for _, most := range []int{1, 5, 8} {
			if at >= 0 && at < most {
				among[most]++
			}
		}
		for _, name := range q.Right {
			if _, ok := b.own.Lookup(name); !ok {
				t.Errorf("there is no %s", name)
			}
		}
		if at != 0 {
			t.Logf("%q: %v is found at %d", q.Words, q.Right, at+1)
		}
	}
	if len(queries) < 24 || among[1] < 22 || among[5] < 26 || among[8] < 27 {
		t.Errorf("of %d right ones %d are first, %d among the first five, %d among the first eight", len(queries), among[1], among[5], among[8])
	}
}

// BenchmarkExtend measures what 200 actions of 5 connections add to a turn that uses none of them.
func BenchmarkExtend(b *testing.B) {
	for _, each := range []int{8, 40, 200} {
		b.Run(fmt.Sprint("actions=", 5*each), func(b *testing.B) {
			services := fakeconnection.Services(max(5, each/8), min(each, 40))
			all := setup(b, 0, services...)
			turn := all.turn()
			all.extend(turn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := all.Extend(b.Context(), turn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ExampleNewChoice() {
	services := fakeconnection.Services(5, 0) // in place of those of packages mcp and openapi
	choice, err := connections.NewChoice([]actions.Connection{services[0], services[1]}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := actions.New()
	if err := choice.Register(registry); err != nil {
		fmt.Println(err)
		return
	}
	extra, err := choice.Extend(context.Background(), &actions.Turn{}) // planners do, see planner.Config.Extensions
	fmt.Println(extra.Text, err)
	// Output:
	// Other services have more actions than you are offered. Find what you need with findActions first:
	// - code: Source code, reviews and builds (actions: 47)
	// - desk: Service desk: tickets, knowledge articles and on-call agents (actions: 46) <nil>
}
