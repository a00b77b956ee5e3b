package bot_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/pipe"
	plans "github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// echo answers each message with its own words.
func echo(_ context.Context, turn *actions.Turn) (plans.Plan, error) {
	return plans.Plan{Commands: []plans.Command{{Kind: plans.Say, Response: "Heard " + turn.Text}}}, nil
}

// onEachRedis runs the test on miniredis and on the real servers that are there, with a
// bot that repeats what it hears and has an id of its own. No other test runs beside it:
// there is enough to do.
func onEachRedis(t *testing.T, test func(t *testing.T, b *bundle, at *nodes)) {
	for name, variable := range map[string]string{"miniredis": "", "server": "PLANBOT_TEST_REDIS_URL", "cluster": "PLANBOT_TEST_REDIS_CLUSTER_URL"} {
		run := func(t *testing.T) {
			var at *nodes
			b := setup(t, func(c *bot.Config) {
				c.AckTimeout, c.Planner = 0, bot.PlannerFunc(echo)
				if variable == "" {
					return
				}
				where := os.Getenv(variable)
				store, err := state.Open(t.Context(), where, state.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = store.Close() })
				c.Store, at = store, nodesOf(t, where)
			})
			if at == nil {
				at = nodesIn(b)
			}
			test(t, b, at)
		}
		switch {
		case variable == "":
			t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
		case os.Getenv(variable) == "":
			t.Logf("%s is unset: not on a %s", variable, name)
		default:
			t.Run(name, run)
		}
	}
}

// nodes are the servers of a Redis, of which a test sees the keys with its bot's id.
type nodes struct {
	*testing.T
	bot   string
	dial  pipe.Dialer
	addrs []string
	db    string
}

func nodesOf(t *testing.T, where string) *nodes {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	return &nodes{t, "28:" + rand.Text(), (&net.Dialer{}).DialContext, append([]string{u.Host}, u.Query()["addr"]...), strings.Trim(u.Path, "/")}
}

// nodesIn is the bundle's Redis.
func nodesIn(b *bundle) *nodes {
	return &nodes{T: b.T, bot: "28:" + rand.Text(), dial: b.toRedis.Dial, addrs: []string{""}}
}

// kept are the keys of documents and sets with what they hold.
func (n *nodes) kept() map[string]string {
	n.Helper()
	kept := map[string]string{}
	for _, addr := range n.addrs {
		conn, err := n.dial(n.Context(), "tcp", addr)
		if err != nil {
			n.Fatal(err)
		}
		r := bufio.NewReader(conn)
		if n.db != "" {
			n.ask(conn, r, "SELECT", n.db)
		}
		for _, key := range n.ask(conn, r, "KEYS", "*/"+n.bot+"/*") {
			switch kind := n.ask(conn, r, "TYPE", key)[0]; kind {
			case "string":
				kept[key] = n.ask(conn, r, "GET", key)[0]
			case "set":
				kept[key] = strings.Join(n.ask(conn, r, "SMEMBERS", key), "\n")
			default:
				kept[key] = "a " + kind
			}
		}
		_ = conn.Close()
	}
	return kept
}

// ask sends one command and returns its answer as a list.
func (n *nodes) ask(w io.Writer, r *bufio.Reader, args ...string) []string {
	n.Helper()
	fmt.Fprintf(w, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(w, "$%d\r\n%s\r\n", len(arg), arg)
	}
	line := func() (kind byte, rest string) {
		text, err := r.ReadString('\n')
		if err != nil || text[0] == '-' {
			n.Fatalf("%v: %q %v", args, text, err)
		}
		return text[0], strings.TrimSpace(text[1:])
	}
	bulk := func(length string) string {
		size, _ := strconv.Atoi(length)
		text := make([]byte, max(size, 0)+2)
		if _, err := io.ReadFull(r, text); err != nil {
			n.Fatal(err)
		}
		return string(text[:size])
	}
	kind, rest := line()
	switch kind {
	case '*':
		count, _ := strconv.Atoi(rest)
		all := make([]string, count)
		for i := range all {
			_, length := line()
			all[i] = bulk(length)
		}
		return all
	case '$':
		return []string{bulk(rest)}
	}
	return []string{rest}
}

// in is a message of Mia's to the bot in one of her conversations: in a group, or in a
// chat of her own, of which a channel for web pages makes a new one each time.
func (n *nodes) in(conversation, text string) event {
	over := event{"text": text, "recipient": event{"id": n.bot, "name": "Planbot"}, "channelId": "webchat", "channelData": nil}
	if strings.HasPrefix(conversation, "group") {
		over["conversation"] = event{"id": conversation, "conversationType": "groupChat", "isGroup": true}
	} else {
		over["conversation"] = event{"id": conversation}
	}
	return over
}

// TestOnePersonInManyConversationsAtOnce: turns that only say something have nothing to
// lose a race for.
func TestOnePersonInManyConversationsAtOnce(t *testing.T) {
	onEachRedis(t, func(t *testing.T, b *bundle, at *nodes) {
		for _, kind := range []string{"group", "chat"} {
			var want []string
			var sending sync.WaitGroup
			for i := range 100 {
				where := fmt.Sprintf("%s-%d", kind, i)
				said := []string{"one in " + where, "two in " + where, "three in " + where}
				for _, text := range said {
					want = append(want, where+": Heard "+text)
				}
				sending.Go(func() {
					for _, text := range said {
						if got := b.deliver(at.in(where, text)); got.status != http.StatusOK {
							t.Errorf("%s: status %d %s", text, got.status, got.body)
						}
					}
				})
			}
			sending.Wait()
			var got []string
			for len(got) < len(want) {
				sent := b.connector.Next(t)
				for _, text := range strings.Split(strings.TrimPrefix(sent.Text(), "Heard "), "\n") { // what waited is answered together
					got = append(got, sent.To+": Heard "+text)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				for _, answer := range got {
					if !slices.Contains(want, answer) {
						t.Errorf("said %q", answer)
					}
				}
				t.Fatalf("%d answers, of which some are not to a message", len(got))
			}
			b.connector.None(t)
		}
	})
}

// TestForgetHasNoLimit: also of a person who spoke in more conversations than anybody
// counts nothing is left.
func TestForgetHasNoLimit(t *testing.T) {
	onEachRedis(t, func(t *testing.T, b *bundle, at *nodes) {
		const many = 350
		for i := range many {
			kind := []string{"group", "chat"}[i%2]
			b.deliver(at.in(fmt.Sprintf("%s-%d", kind, i), "a secret"))
			b.expect("Heard a secret")
		}
		if kept := at.kept(); len(kept) < many {
			t.Fatalf("%d keys before /forget", len(kept))
		}
		b.deliver(at.in("chat-1", "/forget yes"))
		b.expect("I've deleted everything I kept about you.")
		at.nothingLeft(b)
	})
}

// untilDone waits until no turn is at work.
func (n *nodes) untilDone(b *bundle) {
	n.Helper()
	b.until("that no turn is at work", func() bool {
		for key := range n.kept() {
			if strings.HasSuffix(key, "/queue") {
				return false
			}
		}
		return true
	})
}

// nothingLeft: behind the turn of /forget nothing is kept of what Mia said, nor of where.
func (n *nodes) nothingLeft(b *bundle) {
	n.Helper()
	n.untilDone(b)
	for key, value := range n.kept() {
		if strings.Contains(key, "/users/") || strings.Contains(key, "/chat-") || strings.Contains(value, "secret") || strings.Contains(value, "29:mia") {
			n.Errorf("%s holds %q", key, value)
		}
	}
}

// TestWordsThatAreSavedDuringForgetAreFoundByTheNext: a turn has listed its conversation
// before /forget looks there, and saves what was said after that.
func TestWordsThatAreSavedDuringForgetAreFoundByTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout, c.Planner = 0, bot.PlannerFunc(echo) })
		at := nodesIn(b)
		var away atomic.Bool
		away.Store(true)
		saves := make(chan struct{}, 1000)
		b.intercept(func(args []string) string {
			named := 0 // the queue has the name of the conversation's document
			for _, arg := range args {
				if strings.HasSuffix(arg, "/conversations/group-1") {
					named++
				}
			}
			if isSave := strings.HasPrefix(args[0], "EVAL") && named == 2; !isSave || !away.Load() {
				return ""
			}
			saves <- struct{}{}
			return "LOADING Redis is loading the dataset in memory"
		})
		b.deliver(at.in("group-1", "a secret"))
		<-saves
		b.deliver(at.in("chat-1", "/forget yes"))
		b.expect("I've deleted everything I kept about you.")
		away.Store(false)
		b.expect("Heard a secret")
		at.untilDone(b)
		b.deliver(at.in("chat-1", "/forget yes"))
		b.expect("I've deleted everything I kept about you.")
		at.nothingLeft(b)
	})
}

// TestAPlaceThatIsNotKeptFailsNoTurn: Redis refuses what lists the conversation. The turn
// goes on, and nothing is kept that /forget would not find.
func TestAPlaceThatIsNotKeptFailsNoTurn(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		places := state.UserKey("msteams", "28:bot", "29:mia").Under("notes", "places").String()
		var refuses atomic.Bool
		refuses.Store(true)
		b.intercept(func(args []string) string {
			if refuses.Load() && inArgs(args, places) {
				return "ERR not now and not later"
			}
			return ""
		})
		b.model.Says(plan(say("One.")), plan(say("Two.")), plan(say("Three.")))
		for _, answer := range []string{"One.", "Two."} {
			b.say("a secret")
			b.expect(answer)
		}
		if kept := b.kept(); strings.Contains(kept, "secret") {
			t.Errorf("kept: %s", kept)
		}
		refuses.Store(false)
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		b.say("a secret")
		b.expect("Three.")
		if kept := b.kept(); !strings.Contains(kept, "secret") {
			t.Errorf("kept after /forget: %s", kept)
		}
		if left := b.redis.TTL(places); left < 29*24*time.Hour {
			t.Errorf("the places are kept for %s", left)
		}
	})
}

// TestAPlaceThatCannotBeKeptNowIsWaitedFor, as every write is.
func TestAPlaceThatCannotBeKeptNowIsWaitedFor(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		r := b.addReplica(impatient)
		b.intercept(outage(4*shortPatience, func(args []string) bool {
			return args[0] == "HSET" && inArgs(args, "/notes/places")
		}))
		b.model.Says(plan(say("Hello.")), plan(say("Hello.")), plan(say("Hello.")), plan(say("Hello.")))
		r.say("a secret")
		b.expect("Hello.")
		if kept := b.kept(); !strings.Contains(kept, "secret") {
			t.Errorf("kept: %s", kept)
		}
		b.connector.None(t)
	})
}

// TestForgetOfOldState: the list of places that was part of a person's state is nobody's
// any more, and is deleted with it.
func TestForgetOfOldState(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.must(b.redis.Set(state.UserKey("msteams", "28:bot", "29:mia").String(), "planbot/1 "+strings.Repeat("A", 26)+" 6b033491\n"+
			`places {"all":[{"c":"a:mia","p":true},{"c":"19:g@thread.v2"}]}`+"\n"+`home {"c":"a:mia"}`+"\n"))
		b.model.Says(plan(do("addItem", `{"list":"home","item":"milk"}`), say("Added.")))
		b.say("add milk")
		b.expect("Added.")
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		b.until("that nothing is left", func() bool { return len(b.documents()) == 0 })
	})
}

// TestForgetFindsWhatWaitsElsewhere: a reminder for another conversation, in which the
// person has said nothing.
func TestForgetFindsWhatWaitsElsewhere(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		b.bot.OnCommand("elsewhere", func(ctx context.Context, turn *bot.Turn) error {
			_, err := turn.Notifier.Notify(ctx, actions.Notice{To: actions.Recipient{Conversation: "19:g@thread.v2"}, Text: "a secret", At: time.Now().Add(time.Hour)})
			return err
		})
		b.deliver(event{
			"text": "<at>Planbot</at> help", "conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true},
			"from": event{"id": "29:otto", "name": "Otto"}, "entities": []event{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot"}}},
		})
		b.connector.Next(t)
		b.say("elsewhere")
		if len(b.waiting()) != 1 {
			t.Fatalf("waiting: %v", b.waiting())
		}
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		b.gone()
	})
}

// inArgs reports whether a key with that end is among the arguments.
func inArgs(args []string, end string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasSuffix(a, end) })
}
