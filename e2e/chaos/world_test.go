//go:build linux

package chaos_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
)

var (
	loadFor = flag.Duration("load", 0, "how long people write while things are broken; 0: 3 s, with CI=true 15 s, or 5 s")
	briefly time.Duration // where 5 s are enough
	seed    = flag.Uint64("seed", 0, "what is broken when; 0: chosen")
)

const (
	// deliveredWithin and answeredWithin end a test that cannot pass any more.
	deliveredWithin = 90 * time.Second
	answeredWithin  = 60 * time.Second
	// aside is how long the channel waits for a 200 before it sends again.
	aside = 5 * time.Second
	// quiet is how long nothing may come after the last reply. Where something
	// was broken it is longer than a lease, so that whoever would do a turn again
	// has the time to.
	quiet, quietAfterFaults = 2 * time.Second, 8 * time.Second
)

// world is everything around the bots, and the bots.
type world struct {
	*record
	t        *testing.T
	dice     *rand.Rand // of the test's own goroutine
	channel  *channel
	model    *model
	redis    *redis
	replicas []*replica
	client   *http.Client
	talks    sync.WaitGroup
	apart    bool // each message replies to another, so that none joins another
}

// circumstances are what tests of these worlds choose.
type circumstances struct {
	thinks [2]time.Duration // the model, at least and at most
	env    []string         // more settings of the bots
	// screens are in place of the channel and, unless model says otherwise, of the model; nil: they are not.
	screens *screens
	model   http.Handler
	bot     *builtbot.Bot // nil: the one that all tests try
}

const replicas = 3

// tenant is that of all people.
const tenant = "11111111-1111-4111-8111-111111111111"

// newWorld starts a world of its own, which ends with the test.
func newWorld(t *testing.T, c circumstances) *world {
	t.Helper()
	bin, err := cmp.Or(c.bot, built).Path()
	if err != nil {
		t.Fatal(err)
	}
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("-seed %d", chosen)
	w := &world{record: newRecord(), t: t, dice: rand.New(rand.NewPCG(chosen, 0))}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport}
	var connector, answers http.Handler
	if c.screens != nil {
		w.apart = true
		connector, answers = c.screens.begin(t, w.record, chosen)
		answers = cmp.Or(c.model, answers)
	}
	w.channel = newChannel(t, w.record, connector)
	w.model = newModel(t, w.record, c.thinks[0], c.thinks[1], answers)
	w.redis = newRedis(t)
	env := append([]string{
		"PORT=0", "REDIS_URL=redis://" + w.redis.port.String() + "/0", "OPENAI_BASE_URL=" + w.model.url,
		"BOT_ALLOWED_SERVICE_HOSTS=" + w.channel.port.String(), "BOT_LOG_FORMAT=json",
	}, c.env...)
	for i := range replicas {
		r := &replica{name: fmt.Sprintf("bot-%d", i), bin: bin, env: env, dir: w.redis.dir}
		r.start(t)
		w.replicas = append(w.replicas, r)
	}
	return w
}

// needRedis skips the test where there is no redis-server, but not where real
// servers are promised.
func needRedis(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case os.Getenv("PLANBOT_TEST_REDIS_URL") != "":
		t.Fatal("PLANBOT_TEST_REDIS_URL is set, but there is no redis-server to start and kill:", err)
	default:
		t.Skip("there is no redis-server to start and kill:", err)
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) { wait(w.t.Context(), d) }

// between is a random time.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.dice.Int64N(int64(most-least)))
}

// repeat does something until -load is over, and once at least.
func (w *world) repeat(do func()) { w.repeatFor(*loadFor, do) }

func (w *world) repeatFor(load time.Duration, do func()) {
	for end := time.Now().Add(load); ; {
		do()
		if time.Now().After(end) || w.t.Context().Err() != nil {
			return
		}
	}
}

// activity is a message as the channel sends it.
func (w *world) activity(d *delivery) []byte {
	bot := object{"id": "28:bot", "name": "Planbot"}
	a := object{
		"type": "message", "id": d.id(), "channelId": "msteams", "serviceUrl": w.channel.url(), "text": d.kind.text(d.key),
		"from": person(d.speaker()), "recipient": bot,
		"conversation": object{"id": conversation(d.talk), "conversationType": "personal", "tenantId": tenant},
	}
	if w.apart {
		a["replyToId"] = "1-" + d.id()
	}
	if isGroup(d.talk) {
		kind := "groupChat"
		if isThread(d.talk) {
			kind = "channel"
		}
		a["conversation"] = object{"id": conversation(d.talk), "conversationType": kind, "isGroup": true, "tenantId": tenant}
		a["text"] = "<at>Planbot</at> " + d.kind.text(d.key)
		a["entities"] = []object{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": bot}}
	}
	if d.kind == click {
		a["text"], a["value"] = "", object{"say": note.text(d.key)}
	}
	return []byte(written(a))
}

func person(speaker int) object {
	return object{"id": fmt.Sprintf("29:person-%d", speaker), "name": "Mia"}
}

// deliver posts the message to a replica, once.
func (w *world) deliver(to *replica, d *delivery) bool {
	status, _, err := w.post(to, w.activity(d))
	switch {
	case err != nil:
		w.failed(d, failure{why: err.Error()})
	case status != http.StatusOK:
		w.failed(d, failure{status: status})
	default:
		w.acknowledged(d)
	}
	return err == nil && status == http.StatusOK
}

// post sends an activity to a replica as the channel does.
func (w *world) post(to *replica, activity []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), aside)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address(), bytes.NewReader(activity))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(resp.Body) // a 200 is a 200
	return resp.StatusCode, answer, nil
}

// send delivers the message to one replica after another until one takes it, as
// the channel does.
func (w *world) send(d *delivery) {
	ctx, cancel := context.WithTimeout(w.t.Context(), deliveredWithin)
	defer cancel()
	for at := d.talk + d.n; !w.deliver(w.replicas[at%replicas], d) && ctx.Err() == nil; at++ {
		wait(ctx, 200*time.Millisecond+rand.N(300*time.Millisecond))
	}
}

// say sends a message of the person.
func (w *world) say(k key, as kind) *delivery {
	d := w.sends(k, as)
	w.send(d)
	return d
}

// write is a person who writes until ctx ends, and who waits for an answer when
// as many as ahead are open.
func (w *world) write(ctx context.Context, talk, ahead int, kinds []kind) {
	var open []*delivery
	for n := 1; ctx.Err() == nil; n++ {
		open = append(open, w.say(key{talk, n}, kinds[n%len(kinds)]))
		if len(open) > ahead {
			select {
			case <-open[0].answered:
			case <-ctx.Done():
			}
			open = open[1:]
		}
		wait(ctx, rand.N(300*time.Millisecond))
	}
}

// while has people write in so many conversations while do breaks things.
func (w *world) while(talks int, kinds []kind, do func()) {
	all := make([]int, talks)
	for talk := range all {
		all[talk] = talk
	}
	w.amid(all, func(ctx context.Context, talk int) { w.write(ctx, talk, talk%4, kinds) }, do)
}

// amid has people write in these conversations, until ctx ends, while do breaks things.
func (w *world) amid(talks []int, write func(ctx context.Context, talk int), do func()) {
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	for _, talk := range talks {
		w.talks.Go(func() { write(ctx, talk) })
	}
	do()
	stop()
	w.talks.Wait()
}

// settle waits until everything is answered, asks for the lists, and waits until
// nothing more can come.
func (w *world) settle() story {
	w.t.Helper()
	if !w.await() {
		return w.story()
	}
	last := map[int]int{}
	for _, m := range w.story().messages {
		last[m.talk] = max(last[m.talk], m.n)
	}
	for talk, n := range last {
		w.talks.Go(func() { w.say(key{talk, n + 1}, show) })
	}
	w.talks.Wait()
	w.await()
	if s := w.story(); len(s.faults) == 0 {
		w.pass(quiet)
	} else {
		w.pass(quietAfterFaults)
	}
	return w.story()
}

// await waits for the replies to all messages. Which are missing is for the
// checks to say.
func (w *world) await() bool {
	w.mu.Lock()
	var open []*delivery
	for _, d := range w.messages {
		open = append(open, d)
	}
	w.mu.Unlock()
	late := time.After(answeredWithin)
	for _, d := range open {
		select {
		case <-d.answered:
		case <-late:
			return false
		}
	}
	return true
}

// holds ends the test with what was broken of these promises.
func (w *world) holds(s story, checks ...check) {
	w.t.Helper()
	w.t.Log(s.summary())
	if len(s.messages) == 0 || len(s.posts) == 0 {
		w.t.Error("nothing was said")
	}
	for _, c := range checks {
		broken := c.broken(s)
		if more := len(broken) - 10; more > 0 {
			broken = append(broken[:10], fmt.Sprintf("and %d more", more))
		}
		if len(broken) > 0 {
			w.t.Errorf("%s:\n  %s", c.promise, strings.Join(broken, "\n  "))
		}
	}
}

// kill kills a replica in the middle of what it does, and starts another. It spares
// a turn that would be put aside for it.
func (w *world) kill(at int) {
	for late := time.Now().Add(answeredWithin); (w.worn() || w.lostTwice()) && time.Now().Before(late); {
		w.pass(50 * time.Millisecond)
	}
	r := w.replicas[at]
	w.breaks("SIGKILL of "+r.name, func() { r.current().kill() })
	r.start(w.t)
}

// takenOverWithin is how long it takes at most until others take over what a process that
// was killed has begun.
const takenOverWithin = 10 * time.Second

// killHeirs kills those replicas that take over what a process had begun which was just
// killed, each a moment after it says so. It returns how many.
func (w *world) killHeirs() (killed int) {
	for _, r := range w.replicas {
		select {
		case <-r.current().heir: // of earlier
		default:
		}
	}
	late := time.Now().Add(takenOverWithin)
	for time.Now().Before(late) {
		for _, r := range w.replicas {
			select {
			case <-r.current().heir:
				w.pass(w.between(0, 5*time.Millisecond))
				w.breaks("SIGKILL of "+r.name+", which took over", func() { r.current().kill() })
				r.start(w.t)
				if killed++; killed == 1 {
					late = time.Now().Add(time.Second) // the others that were quick
				}
			default:
			}
		}
		w.pass(time.Millisecond)
	}
	return killed
}

// stop pauses a replica.
func (w *world) stop(at int, d time.Duration) {
	p := w.replicas[at].current()
	w.breaks("SIGSTOP of "+w.replicas[at].name, func() {
		p.signal(syscall.SIGSTOP)
		w.pass(d)
		p.signal(syscall.SIGCONT)
	})
}

// roll ends a replica as an orchestrator does, and starts another.
func (w *world) roll(at int) {
	w.t.Helper()
	r := w.replicas[at]
	p := r.current()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.code != 0 {
			w.t.Errorf("%s ended with code %d after SIGTERM", r.name, p.code)
		}
	case <-time.After(30 * time.Second):
		w.t.Errorf("%s does not end after SIGTERM", r.name)
		p.kill()
	}
	r.start(w.t)
}

// redisAway kills Redis and starts it again after a while.
func (w *world) redisAway(d time.Duration) {
	w.breaks("Redis away", func() {
		w.redis.kill()
		w.pass(d)
		w.redis.start(w.t)
	})
}

// connectorAway refuses connections for a while.
func (w *world) connectorAway(d time.Duration) {
	w.breaks("connector away", func() {
		w.channel.down()
		w.pass(d)
		w.channel.up(w.t)
	})
}
